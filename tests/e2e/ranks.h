/* SPDX-License-Identifier: Apache-2.0 */
/* A plan on its ranks, each a thread of this process with a context and a session of its own. */
#ifndef TESTS_E2E_RANKS_H
#define TESTS_E2E_RANKS_H

#include "harness.h"
#include "sleep.h"

#define RANKS_MAX       8
#define RANKS_STEPS_MAX 10

/* A tiny model of a family. */
struct ranks_model {
    const char *preset;
    remat_dtype dtype;
    double clip_norm;
    uint32_t zero;           /* of its plans on several ranks */
    uint64_t exchange_bytes; /* of a gradient at once; 0: all */
    bool narrow;             /* no masters, bf16 moments */
    int64_t vocab_multiple;  /* 0: the vocabulary is not padded */
    int64_t lora;            /* rank of adapters, beside which nothing trains; 0: none */
    uint32_t tp;             /* ranks along "tp" for each along "dp"; up to 1: no such axis */
    bool sequence_parallel;  /* along "tp" */
};

/* Of two layers of width 12 on 259 ids: no vector and no table divides among 8 ranks, matrices do.
 * `ranks` are along "dp"; `batch` is that of all parts. */
struct remat_graph *ranks_graph(remat_context *ctx, struct remat_arena *arena,
                                const struct ranks_model *model, uint32_t ranks,
                                uint32_t microbatches, uint32_t batch, bool forward_only);
struct remat_pass_settings ranks_passes(const struct ranks_model *model, uint32_t ranks,
                                        uint32_t microbatches);
/* Its plan that recomputes nothing. */
struct remat_program *ranks_compile(remat_context *ctx, struct remat_arena *arena,
                                    const struct ranks_model *model, uint32_t ranks,
                                    uint32_t microbatches, uint32_t batch);
/* "gpt2-tiny bf16 dp=4", for messages. */
void ranks_describe(char out[80], const struct ranks_model *model, uint32_t ranks);

/* What a rank's step gave, in bits that do not depend on how the step was divided. */
struct ranks_result {
    remat_status status;
    char message[1024]; /* of a failure */
    float loss[RANKS_STEPS_MAX], evaluated;
    uint64_t gradients[RANKS_STEPS_MAX]; /* of the last version of each, by name */
    uint32_t gradient_count;
    uint64_t states; /* parameters and the optimizer's states after the last step */
    uint64_t touched_bytes;
    uint64_t sent_bytes;    /* in the first step, as the engine was told */
    uint32_t late_count;    /* transfers that were made late */
    uint32_t grouped_count; /* transfers that continued a group */
    int32_t not_finite;     /* the flag after the last step */
    float factor;           /* of clipped gradients in the first step; 0: they are not */
    char wrong_access[512]; /* the first one of ranks that sleep; "": none */
};

/* Stands between a session and the ranks' engine: counts, and may do wrong. */
struct ranks_tap {
    void (*after)(void *user, const remat_transfer *transfer, bool exchange, uint32_t rank);
    void *user;
};

struct ranks_settings {
    uint32_t steps;
    bool paint, guard, ungrouped;
    bool late; /* each transfer of a step is made as late as the plan allows, and what it writes is
                  filled with a pattern when it could begin */
    /* Every command of a step takes its time, and is watched (sleep.h); NULL: as long as it takes.
     */
    const struct sleep_settings *sleep;
    const struct ranks_tap *tap;     /* called after each transfer; NULL: none */
    uint32_t shift;                  /* added to each coordinate: a planted fault */
    uint32_t absent;                 /* how many ranks, the last ones, never come */
    uint32_t stopped_after;          /* commands, after which rank 1's trace stops it; 0: never */
    uint64_t timeout_ns;             /* 0: as the session has it */
    const struct remat_program *odd; /* the plan of rank 1; NULL: that of all */
    /* Called with each gradient that rank 0 computes, whole; NULL: not. */
    void (*keep)(void *user, const char *name, remat_element element, const void *data,
                 uint64_t bytes);
    void *keep_user;
};

/* Runs init, the steps on harness_write_inputs, and eval once; one result for each rank. A plan of
 * one rank runs alone. Whether a step is expected to fail is the caller's. */
void ranks_run(remat_context *ctx, struct remat_program *program,
               const struct ranks_settings *settings, struct ranks_result *results);

/* How many transfers of these steps, and of the evaluation, continue groups. */
uint32_t ranks_grouped(const struct remat_program *program, uint32_t steps);

/* The same bits in all that was trained. */
bool ranks_equal(const struct ranks_result *a, const struct ranks_result *b, uint32_t steps);

/* None, full, block, selective and five budgets: two steps have the bits of *expected, or, if it is
 * NULL, of the first plan, on all ranks; painted arenas are touched as far as planned; and one plan
 * runs with guards. */
void ranks_check_graph(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_graph *graph, const struct remat_pass_settings *passes,
                       const struct ranks_result *expected);
void ranks_check_plans(remat_context *ctx, const struct ranks_model *model, uint32_t ranks,
                       const struct ranks_result *expected);

#endif
