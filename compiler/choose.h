/* SPDX-License-Identifier: Apache-2.0 */
/* Which decision is carried out. Candidates do not depend on the budget, so more budget never gives
 * a slower plan:
 *   - a policy that was given is the only one;
 *   - solver manual: the fastest manual policy whose packed arena fits;
 *   - solver per-op: the first decision of the planner's paths whose packed arena fits; or what
 * lies near the corners of its hulls, or the fastest manual policy that fits, where that is faster.
 */
#ifndef REMAT_CHOOSE_H
#define REMAT_CHOOSE_H

#include "compile.h"
#include "evaluate.h"
#include "planner.h"

struct remat_chooser {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_compile_settings *settings;
    const struct remat_graph *graph; /* what decisions are made on */
    const struct remat_statics *statics;
    struct remat_evaluator *evaluator;
    struct remat_stopwatch *watch;
    const struct remat_arrangement *update;       /* what else a step runs; graph NULL: nothing */
    uint64_t fixed_arena_bytes, fixed_live_bytes; /* that other segments need */
    uint64_t reserve_bytes, limit_bytes; /* limit: budget - reserve, UINT64_MAX without one */
    struct remat_notes notes;            /* for the report */
    struct remat_search_state state;     /* times are of the decided segment */
    bool over;                           /* settings->is_over has said so */
    struct remat_policy_ground *ground;  /* of the graph and its pins */
    const struct remat_decision *pinned; /* what the pins decide */
    uint32_t path_count;                 /* private; 0: not known yet */
    struct remat_rung *incumbent;        /* private: the fastest tried that fits; NULL: none yet */
    uint32_t *path_ends;                 /* private; by path, 0: not known yet; NULL: none is */
};

/* A decision carried through; everything lies in the chooser's arena. */
struct remat_candidate {
    const char *name; /* of the policy, or "per-op" */
    struct remat_decision decision;
    struct remat_arrangement arranged;
    uint64_t arena_bytes;
    uint64_t
        bound_ns; /* arranged.step_ns of any decision that fits is at least this; 0: not asked */
    uint64_t floor_slack_ns;           /* that the bound leaves out by the profile's floor */
    uint64_t floor_bytes;              /* of the arena of any decision; 0: not asked */
    const struct remat_policy *manual; /* its own, or the fastest that fits, if possible of those
                                          that Megatron has flags for; NULL: none does */
    uint64_t manual_ns;                /* arranged.step_ns of that */
};

/* REMAT_ERROR_INFEASIBLE: nothing fits; the message names the smallest feasible budget, the binding
 * command, its largest residents with what removing them would cost, and with the planner, the
 * budget below which there is nothing. REMAT_ERROR_CUT_SHORT: the search was ended with nothing
 * found, and neither what is likely smallest fits. */
remat_status remat_choose(struct remat_chooser *chooser, struct remat_candidate *out);

/* Step time of the decided segment with everything saved, pins or not. */
remat_status remat_choose_base(struct remat_chooser *chooser, uint64_t *out_ns);

/* REMAT_ERROR_INTERNAL where a bound says that what has been found cannot be: no such bound is ever
 * shown. Both of the decided segment. */
remat_status remat_choose_check_bound(struct remat_chooser *chooser, uint64_t bound_ns,
                                      uint64_t step_ns);

/* Whether a search is to end; asks settings->is_over. */
bool remat_choose_is_over(struct remat_chooser *chooser);

/* The planner for the chooser's graph and pins; it lies in the chooser's arena. */
remat_status remat_choose_planner(struct remat_chooser *chooser, struct remat_planner **out);

/* How many of the planner's paths are of use: groups of more layers need more room at once. */
remat_status remat_choose_path_count(struct remat_chooser *chooser, struct remat_arena *scratch,
                                     const struct remat_planner *planner, uint32_t *out);

/* The message of a refusal: the smallest candidate needs `arena_bytes`. */
remat_status remat_infeasible(struct remat_chooser *chooser, const struct remat_candidate *smallest,
                              uint64_t arena_bytes, uint64_t floor_bytes);

#endif
