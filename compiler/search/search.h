/* SPDX-License-Identifier: Apache-2.0 */
/* Which decision is carried out. A policy that was given is the only one. With solver manual it is
 * the fastest manual policy whose packed arena fits; with solver per-op the fastest of the
 * planner's decisions and the manual policies. These proposals do not depend on the budget and are
 * tried by time, the fastest first (queue.h), so more budget never gives a slower plan. */
#ifndef REMAT_SEARCH_H
#define REMAT_SEARCH_H

#include "lower.h"
#include "planner.h"
#include "policy.h"
#include "search_settings.h"

struct remat_search {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_arena *planning;  /* of the planner */
    struct remat_arena *scratch;   /* of one proposal at a time: empty between two */
    struct remat_planner *planner; /* NULL: not needed, as where there is no budget */
    const struct remat_search_settings *settings;
    const struct remat_graph *graph;              /* that decisions are about */
    struct remat_evaluator *evaluator;            /* of `graph` */
    struct remat_model model;                     /* of `graph`, without pins */
    const struct remat_step *step;                /* whose other segments are scheduled */
    uint64_t fixed_arena_bytes, fixed_live_bytes; /* of the other segments */
    uint64_t floor_bytes;                         /* of any arena, as far as is proven */
    uint64_t reserve_bytes, limit_bytes;     /* limit: budget - reserve, UINT64_MAX without one */
    struct remat_notes notes;                /* for the report */
    struct remat_search_state state;         /* times are of the decided segment */
    bool over;                               /* settings->is_over has said so */
    struct remat_policy_facts *policy_facts; /* of `graph` and its pins */
};

/* A decision as it is lowered; everything lies in the search's arena, except `arranged`. */
struct remat_chosen {
    const char *name; /* of the policy, or "per-op" */
    struct remat_decision decision;
    struct remat_arrangement arranged; /* as evaluated; in `planning` and the evaluator's memory */
    uint64_t arena_bytes;
    bool fits;              /* false: nothing does, and this is the smallest */
    uint64_t bound_ns;      /* of every decision that fits; 0: not asked */
    const char *limited_by; /* as in struct remat_program */
    uint64_t floor_bytes;   /* of the arena of any decision; 0: not asked */
    /* By system: the policy asked for, or the fastest that fits, preferably one that the system has
     * flags for, and its arranged.step_ns; NULL: none fits. */
    struct remat_timed_policy {
        const struct remat_policy *policy;
        uint64_t ns;
    } manual[REMAT_SYSTEM_COUNT];
};

/* Chooses the plan. REMAT_ERROR_CUT_SHORT: the search was ended with nothing found, and the
 * decision that is likely the smallest does not fit either. */
remat_status remat_choose(struct remat_search *search, struct remat_chosen *out);

/* REMAT_ERROR_INTERNAL if the bound exceeds a time that was found: no such bound is ever shown.
 * Both are of the decided segment. */
remat_status remat_search_check_bound(struct remat_search *search, uint64_t bound_ns,
                                      uint64_t step_ns);

/* True with a budget and neither a policy nor the manual solver: planned decisions are tried. */
bool remat_search_per_op(const struct remat_search *search);

/* Lower bound of a step, given that of the decided segment. */
uint64_t remat_search_bound_ns(const struct remat_search *search, uint64_t ns);

/* True if the search is to end, as settings->is_over says. */
bool remat_search_is_over(struct remat_search *search);

/* Raises the floor of all arenas; `always`: it holds whatever the pieces of gradients. Calls
 * settings->refused where it exceeds the limit. */
void remat_search_raise_floor(struct remat_search *search, uint64_t arena_bytes, bool always);

/* The error of a search that is not to say what needs least (settings->briefly). */
remat_status remat_search_refuse_briefly(struct remat_search *search);

/* Creates the planner for the search's graph and pins, and finds the bound for its budget. */
remat_status remat_search_plan(struct remat_search *search, bool bounds_only);

/* Time of a step, given that of the decided segment; 0: not known. */
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
