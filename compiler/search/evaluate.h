/* SPDX-License-Identifier: Apache-2.0 */
/* Exact cost of a decision: its kernels, their times, schedule and lifespans. Each kernel is formed
 * when a decision first has it. */
#ifndef REMAT_EVALUATE_H
#define REMAT_EVALUATE_H

#include "arrange.h"
#include "index.h"
#include "schedule.h"
#include "times.h"

struct remat_evaluation {
    uint64_t step_ns;               /* 0: not known */
    uint64_t live_peak_bytes;       /* 0: not scheduled */
    uint64_t arena_bytes;           /* UINT64_MAX: not packed */
    struct remat_class_times times; /* step_ns by class of kernel */
    uint64_t transfers_ns;          /* of transfers, were they blocking */
    uint64_t effect;                /* equal for decisions with the same kernels */
};

/* Times at depths, as remat_evaluate_depths found them for `effect`. */
struct remat_timed_depths {
    uint64_t effect, limit_ns;
    uint32_t count;
    struct remat_evaluation *costs;
};

struct remat_evaluator {
    const struct remat_settled *settled;
    const struct remat_price *prices; /* of settled->kernels */
    uint64_t base_ns;       /* of a step with everything saved, at the depth where it is fastest */
    uint64_t overlapped_ns; /* the part of base_ns in transfers that may be overlapped */
    struct remat_depths depths; /* at which transfers may be overlapped; they may block, too */
    struct remat_times *sums;   /* the kernels of decisions, and their times */
    struct remat_clones clones;
    struct remat_variants *variants; /* NULL: nothing has been evaluated */
    const struct remat_persistent *persistent;
    const remat_tensor_id *inputs; /* by value of the clones' graph: its persistent tensor */
    const struct remat_device_description *device;
    struct remat_stopwatch *watch;
    struct remat_arena *known; /* holds the variants, and: */
    struct REMAT_LIST(struct remat_timed_depths) timed;
    struct remat_index timed_by_effect;
    struct remat_arena *body;    /* holds one while it is formed */
    struct remat_arena *scratch; /* holds one evaluation */
};

/* Fuses `graph`, which decisions are about, and prices its kernels. `pinned` as for remat_settle.
 * All pointers outlive the evaluator, whose tables lie in `arena`. Thread-compatible. */
void remat_evaluator_init(struct remat_evaluator *evaluator, struct remat_arena *arena,
                          const struct remat_graph *graph,
                          const struct remat_persistent *persistent,
                          const struct remat_device_description *device,
                          const struct remat_decision *pinned, struct remat_stopwatch *watch);
/* Frees the memory of evaluations and the variants that they formed; more can follow. */
void remat_evaluator_forget(struct remat_evaluator *evaluator);
void remat_evaluator_release(struct remat_evaluator *evaluator);

/* Time alone, without memory. */
struct remat_evaluation remat_evaluate_time(struct remat_evaluator *evaluator,
                                            const struct remat_decision *decision);

/* The time of computation alone, which no way to run transfers takes less than. */
struct remat_evaluation remat_evaluate_computation(struct remat_evaluator *evaluator,
                                                   const struct remat_decision *decision);

/* Times at the first of e->depths, in `out`, without memory. Returns how many: further depths give
 * the schedule of the last one. Where a time is above limit_ns, another one above it may stand for
 * it. */
uint32_t remat_evaluate_depths(struct remat_evaluator *evaluator,
                               const struct remat_decision *decision, uint64_t limit_ns,
                               struct remat_evaluation *out);

/* Time and live peak; packs as remat_place does, where the live peak is at most limit_bytes. */
struct remat_evaluation remat_evaluate(struct remat_evaluator *evaluator,
                                       const struct remat_decision *decision, uint64_t limit_bytes);

/* The arrangement that remat_evaluate measures, up to lifespans without offsets, on a graph of its
 * own (remat_wire). Lies in `arena` and in the evaluator's memory. */
struct remat_arrangement remat_evaluator_arrange(struct remat_evaluator *evaluator,
                                                 struct remat_arena *arena,
                                                 const struct remat_decision *decision);

#endif
