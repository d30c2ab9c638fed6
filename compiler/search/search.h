/* SPDX-License-Identifier: Apache-2.0 */
/* Which decision is carried out. A policy that was given is the only one. With solver manual it is
 * the fastest manual policy whose packed arena fits; with solver per-op the fastest of the
 * planner's decisions and the manual policies. These proposals do not depend on the budget and are
 * tried by time, the fastest first (queue.h), so more budget never gives a slower plan. */
#ifndef REMAT_SEARCH_H
#define REMAT_SEARCH_H

#include "decide.h"
#include "lower.h"
#include "planner.h"
#include "search_settings.h"

struct remat_search {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_arena *planning;  /* of the planner */
    struct remat_arena *scratch;   /* of one proposal at a time: empty between two */
    struct remat_planner *planner; /* NULL: not needed, as where there is no budget */
    const struct remat_search_settings *settings;
    const struct remat_graph *graph;              /* what decisions are made on */
    struct remat_evaluator *evaluator;            /* of that */
    struct remat_model model;                     /* of that; no pins */
    const struct remat_step *step;                /* whose other segments are scheduled */
    uint64_t fixed_arena_bytes, fixed_live_bytes; /* that other segments need */
    uint64_t floor_bytes;                         /* no arena is smaller, as far as is known yet */
    uint64_t reserve_bytes, limit_bytes; /* limit: budget - reserve, UINT64_MAX without one */
    struct remat_notes notes;            /* for the report */
    struct remat_search_state state;     /* times are of the decided segment */
    bool over;                           /* settings->is_over has said so */
    struct remat_policy_ground *ground;  /* of the graph and its pins */
};

/* A decision carried through; everything lies in the search's arena, but for `arranged`. */
struct remat_chosen {
    const char *name; /* of the policy, or "per-op" */
    struct remat_decision decision;
    struct remat_arrangement arranged; /* as evaluated; in `planning` and the evaluator's memory */
    uint64_t arena_bytes;
    bool fits;            /* false: nothing does, and this needs least */
    uint64_t bound_ns;    /* no decision that fits takes less; 0: not asked */
    uint64_t floor_bytes; /* of the arena of any decision; 0: not asked */
    /* By system: its own policy, or the fastest that fits, if possible of those that the system has
     * flags for, and arranged.step_ns of that; NULL: none does. */
    struct remat_timed_policy {
        const struct remat_policy *policy;
        uint64_t ns;
    } manual[REMAT_SYSTEM_COUNT];
};

/* REMAT_ERROR_CUT_SHORT: the search was ended with nothing found, and what is likely smallest does
 * not fit either. */
remat_status remat_choose(struct remat_search *search, struct remat_chosen *out);

/* REMAT_ERROR_INTERNAL where a bound says that what has been found cannot be: no such bound is ever
 * shown. Both of the decided segment. */
remat_status remat_search_check_bound(struct remat_search *search, uint64_t bound_ns,
                                      uint64_t step_ns);

/* With a budget, and neither a policy nor the manual solver: the planner's decisions count. */
bool remat_search_per_op(const struct remat_search *search);

/* Of a step, from one for the decided segment. */
uint64_t remat_search_bound_ns(const struct remat_search *search, uint64_t ns);

/* Whether a search is to end; asks settings->is_over. */
bool remat_search_is_over(struct remat_search *search);

/* No arena is smaller; `always`: whatever the pieces of gradients. Tells settings->refused where
 * that is more than there is room for. */
void remat_search_raise_floor(struct remat_search *search, uint64_t arena_bytes, bool always);

/* For settings->briefly. */
remat_status remat_search_refuse_briefly(struct remat_search *search);

/* Makes the planner for the search's graph and pins; finds the bound for its budget. */
remat_status remat_search_plan(struct remat_search *search, bool bounds_only);

/* Of a whole step, when the decided segment takes `ns`; 0: not known. */
uint64_t remat_search_step_ns(const struct remat_search *search, uint64_t ns);

/* The other action of each value of the graph, all other values as decided. Costs of single values
 * are differences of exact step times in small graphs; in large ones they are estimated by the
 * costs of the planner's problem (closure.h). */
struct remat_explanation {
    struct remat_alternative *alternatives; /* by value of the graph */
    bool exact;                             /* what they cost; else estimated */
};
struct remat_explanation remat_explain(struct remat_search *search,
                                       const struct remat_decision *decision);

/* Fills `out`, the front of --curve: of what the planner and the manual policies offer, what
 * nothing else is as small and as fast as; in large graphs points lie some way apart. Times are of
 * a step, bytes are live peaks of all segments; the points lie in the search's arena. */
remat_status remat_search_front(struct remat_search *search, struct remat_front *out);

#endif
