/* SPDX-License-Identifier: Apache-2.0 */
/* The exact cost of a decision: its kernels, their times, schedule and lifespans. Each kernel is
 * formed when a decision first has it. */
#ifndef REMAT_EVALUATE_H
#define REMAT_EVALUATE_H

#include "arrange.h"
#include "times.h"

struct remat_evaluation {
    uint64_t step_ns;               /* 0: not known */
    uint64_t live_peak_bytes;       /* 0: not scheduled */
    uint64_t arena_bytes;           /* UINT64_MAX: not packed */
    struct remat_class_times times; /* step_ns by class */
    uint64_t effect;                /* the same for decisions that make the same kernels */
};

struct remat_evaluator {
    const struct remat_settled *settled;
    const struct remat_price *prices; /* of settled->kernels */
    uint64_t base_ns;                 /* of a step with these */
    uint64_t beside_ns;               /* of them what may run beside computation */
    bool transfers;           /* some are: beside computation or in groups, unless in line */
    struct remat_times *sums; /* of decisions */
    struct remat_clones clones;
    struct remat_variants *variants; /* NULL: nothing has been evaluated */
    const struct remat_persistent *persistent;
    const remat_tensor_id *inputs; /* by value of the clones' graph: which static it is */
    const struct remat_device_description *device;
    struct remat_stopwatch *watch;
    struct remat_arena *known;   /* of the variants */
    struct remat_arena *body;    /* of one while it is formed */
    struct remat_arena *scratch; /* of one evaluation */
};

/* `graph` is what decisions are made on; `pinned` as for remat_settle; all pointers outlive the
 * evaluator, whose tables lie in `arena`. Thread-compatible. */
void remat_evaluator_init(struct remat_evaluator *evaluator, struct remat_arena *arena,
                          const struct remat_graph *graph,
                          const struct remat_persistent *persistent,
                          const struct remat_device_description *device,
                          const struct remat_decision *pinned, struct remat_stopwatch *watch);
/* Gives back the memory of evaluations, and what is known from them; more can follow. */
void remat_evaluator_forget(struct remat_evaluator *evaluator);
void remat_evaluator_release(struct remat_evaluator *evaluator);

/* The time alone, without a schedule: step_ns is 0 where transfers run beside computation. */
struct remat_evaluation remat_evaluate_time(struct remat_evaluator *evaluator,
                                            const struct remat_decision *decision);

/* Time and live peak. Packs too, where the live peak is at most limit_bytes: the arena is that of
 * remat_place. */
struct remat_evaluation remat_evaluate(struct remat_evaluator *evaluator,
                                       const struct remat_decision *decision, uint64_t limit_bytes);

/* What remat_evaluate has looked at, up to lifespans without offsets; on a graph of its own
 * (remat_wiring). Lies in `arena` and in what the evaluator holds. */
struct remat_arrangement remat_evaluator_arrange(struct remat_evaluator *evaluator,
                                                 struct remat_arena *arena,
                                                 const struct remat_decision *decision);

#endif
