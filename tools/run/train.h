/* The loop of training or evaluation: feed, run, record, print. */
#ifndef REMAT_TOOLS_RUN_TRAIN_H
#define REMAT_TOOLS_RUN_TRAIN_H

#include "families.h"
#include "recorder.h"
#include "report.h"
#include "text.h"

struct train_settings {
    uint64_t steps, gradients_step; /* counted from 1 */
    uint64_t seed;
    float lr;
    bool hash, json;
    bool eval; /* entry point "eval": nothing is trained, and the mean loss is printed */
    const char *gradients_path; /* NULL: not saved */
    struct chrome_trace *trace; /* NULL: none */
    struct profiler *profiler;  /* NULL: none */
};

/* What the tool needs of a plan, found by name. */
struct train_model {
    const remat_plan *plan;
    uint64_t batch, seq; /* of the inputs "tokens" and "targets", i32 [batch, seq] */
    uint64_t source_seq; /* of the input "source", 0: none */
    int64_t vocabulary;  /* rows of the table of token embeddings, INT64_MAX when none is found */
    enum feeding feeding;
    bool has_lr, has_step, has_rng;
};
/* `eval`: the plan must have the entry point "eval", else "train". */
remat_status train_inspect(remat_context *ctx, const remat_plan *plan, bool eval,
                           struct train_model *out);

/* Runs the steps on an initialised session; stops early, and says so, when the user interrupts. */
remat_status train(remat_context *ctx, const struct train_model *model,
                   const struct train_settings *settings, const struct text *text,
                   remat_session *session, struct measured *measured);

#endif
