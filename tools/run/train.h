/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of training, or of an evaluation by itself: feed, run, record, print. */
#ifndef REMAT_TOOLS_RUN_TRAIN_H
#define REMAT_TOOLS_RUN_TRAIN_H

#include "data.h"
#include "lr_schedule.h"
#include "model_folder.h"
#include "ranks.h"
#include "recorder.h"
#include "report.h"

struct train_settings {
    uint64_t steps, gradients_step; /* counted from 1 */
    uint64_t seed;
    uint64_t resumed;               /* steps of the run that another process did */
    const char *stop_after;         /* as given; NULL: all steps run */
    uint64_t stop_ns;               /* by clock_ns: no step begins later */
    uint64_t every;                 /* so many steps have a checkpoint */
    const char *checkpoint;         /* folder; NULL: there are none */
    const char *resume;             /* the folder that the run goes on from; NULL: it begins */
    bool repeatable;                /* the same command begins the run and goes on with it */
    struct rows rows;               /* that the steps read */
    uint64_t data_hash, input_hash; /* input: of what --input gives */
    struct schedule schedule;
    uint64_t eval_every;   /* so many steps, and the last, are followed by an evaluation; 0: none */
    uint64_t eval_steps;   /* batches of it */
    struct rows eval_rows; /* that it reads */
    uint64_t eval_hash;    /* of the files of its own; 0: it has none */
    bool hash, json;
    const char *log_path; /* a line for each step; NULL: none */
    bool eval;            /* entry point "eval": nothing is trained, and the mean loss is printed */
    const char *gradients_path;              /* NULL: not saved */
    const char *initial_path, *weights_path; /* of parameters before and after; NULL: not saved */
    struct model_folder folder;              /* of weights_path, if that is in one */
    struct remat_outputs *outputs;
    struct chrome_trace *trace; /* NULL: none */
    struct profiler *profiler;  /* NULL: none */
    struct ranks *ranks;        /* which wait for each step of rank 0; NULL: there is one rank */
};

/* Before the first step, if settings->initial_path says so: while other ranks are in train_follow.
 */
remat_status train_save_initial(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, remat_session *session);

/* Runs the steps on an initialised session; stops early, and says so, when it is interrupted or
 * its time is over; and after a step with a result that is not finite. */
remat_status train(remat_context *ctx, const struct model *model,
                   const struct train_settings *settings, remat_session *session,
                   struct measured *measured);

/* After the last step, if settings->weights_path says so and all is finite, or else says in
 * `measured` what is not. Between RANKS_END and ranks_finish. */
remat_status train_save_weights(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, remat_session *session,
                                struct measured *measured);

/* The same steps on another rank, with `peers`, as rank 0 orders them; nothing is printed.
 * *steps: how many; *total_ns: the time in entry points. */
remat_status train_follow(remat_context *ctx, const struct model *model,
                          const struct train_settings *settings, remat_session *session,
                          struct peers peers, struct records *records, uint64_t *steps,
                          uint64_t *total_ns);

#endif
