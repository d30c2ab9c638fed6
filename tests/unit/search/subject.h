/* SPDX-License-Identifier: Apache-2.0 */
/* A model carried through the passes, with what decisions on it are evaluated by. */
#ifndef TESTS_UNIT_SEARCH_SUBJECT_H
#define TESTS_UNIT_SEARCH_SUBJECT_H

#include "models.h"
#include "planner.h"
#include "policy.h"
#include "search.h"

struct subject {
    remat_context *ctx;
    struct remat_arena arena;
    struct remat_device_description device;
    /* Set before the graph is prepared: rows, 0 for no chunks; ranks, 0 for one. */
    uint32_t loss_chunk, ranks, zero;
    bool tensor;                     /* ranks are along "tp", else "dp" */
    const struct remat_graph *graph; /* what decisions are made on */
    struct remat_step step;          /* that, once, and nothing else */
    struct remat_persistent persistent;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

/* Release also after a failure. */
void subject_init(struct subject *subject);
void subject_release(struct subject *subject);

/* One of the two, once after subject_init; `device` names a description. The graph: for the
 * description that subject->device holds. */
remat_status subject_prepare(struct subject *subject, const struct remat_model_settings *settings,
                             uint32_t microbatches, const char *device);
remat_status subject_prepare_graph(struct subject *subject, const struct remat_graph *source,
                                   uint32_t microbatches);

/* Saves some values of the graph, by value, whatever is decided. */
remat_status subject_pin(struct subject *subject, const bool *saved);

/* After another device description: subject->device has changed. */
void subject_reprice(struct subject *subject);

/* What the solver per-op chooses when an arena may have so many bytes; it lies in `arena`. */
remat_status subject_choose(struct subject *subject, struct remat_arena *arena,
                            uint64_t limit_bytes, struct remat_chosen *out);

/* The kernels that the evaluator for a decision forms, on the nodes of its clones' graph, until the
 * next decision. */
struct remat_kernel_list subject_kernels(struct remat_evaluator *evaluator,
                                         struct remat_arena *arena,
                                         const struct remat_decision *decision);

/* The graph as it is, nothing recomputed, and a planner over it; in the subject's arena. */
remat_status subject_plan(struct subject *subject, struct remat_arrangement *base,
                          struct remat_decision *none, struct remat_planner **planner);

/* What the model charges for a decision: no more than it takes. */
remat_status subject_charged(struct remat_arena *scratch, const struct remat_model *model,
                             const struct remat_decision *decision, uint64_t *out_ns);

/* How many ways there are to run the transfers of a decision (search/proposal.h), and the one of
 * that number, which may be larger. */
uint32_t subject_runs(const struct subject *subject);
void subject_set_run(const struct subject *subject, struct remat_decision *decision, uint32_t run);

/* The model that such a planner is made of. */
remat_status subject_extract(struct subject *subject, struct remat_model *model);

/* A prepared subject with both. */
struct subject_bench {
    struct subject s;
    struct remat_arrangement base;
    struct remat_decision none;
    struct remat_model model;
    struct remat_planner *planner;
};
remat_status subject_bench_extract(struct subject_bench *bench);

/* The manual policies in their order, of lists of ops every 16th, without pins; what one of
 * them decides, in `arena`. */
struct subject_manual {
    uint32_t count;
    struct remat_policy *policies;
    struct remat_policy_facts *facts;
};
remat_status subject_manual(struct subject *subject, struct subject_manual *out);
remat_status subject_manual_decide(const struct subject_manual *listed, struct remat_arena *arena,
                                   uint32_t policy, struct remat_decision *out);

#endif
