/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a search, and what it reports to those who watch it. */
#ifndef REMAT_SEARCH_SETTINGS_H
#define REMAT_SEARCH_SETTINGS_H

#include "path.h"
#include "policy.h"
#include "program.h"

/* The decisions to choose from where there is a budget and no policy. */
enum remat_solver {
    REMAT_SOLVER_PER_OP, /* the planner's, value by value, and the manual policies */
    REMAT_SOLVER_MANUAL, /* the manual policies alone */
};

/* The state of a search. Times are of a step; 0: not known yet. */
struct remat_search_state {
    uint64_t best_ns;  /* the fastest plan that fits; for a curve, the fastest decision priced */
    uint64_t bound_ns; /* lower bound of every plan that fits */
    /* For a curve only: */
    uint64_t least_bytes;              /* smallest live peak */
    uint32_t seen_count, to_see_count; /* decisions priced, decisions in all */
};

/* A proposal that a search has scheduled. */
struct remat_tried {
    const char *policy; /* a manual policy, or "per-op": the planner's */
    remat_path_id path; /* of the planner's; none: neighbour number `step` */
    uint32_t step;
    uint64_t least_ns;        /* lower bound of the step's time; 0: not known */
    uint64_t step_ns;         /* exact before it is scheduled */
    uint64_t least_bytes;     /* lower bound of the live peak; 0: not known */
    uint64_t live_peak_bytes; /* of the segment that is decided */
    uint64_t arena_bytes;     /* UINT64_MAX: not packed */
    bool fits;                /* the arena, within the budget */
};

/* The scheduled proposals of one queue, in the order in which they were scheduled. */
struct remat_tried_list {
    const char *name;
    uint32_t proposal_count, count; /* in the queue; of these, scheduled */
    const struct remat_tried *items;
};

/* The place that determines the bound of a budget ("The bound" in docs/planning.md): the first run
 * of a kernel, and a minimum cut there. */
struct remat_binding {
    uint64_t bound_ns; /* of a step */
    const char *kernel, *phase;
    uint64_t static_bytes, other_bytes; /* live there in every plan */
    uint64_t room_bytes;                /* the rest of the arena */
    uint64_t kept_bytes;                /* saved by the cut */
    double price_ps;                    /* of a byte */
    uint64_t priced_ns;                 /* the bound by this price alone, without cases */
    uint32_t kept_count;
    const struct remat_kept {
        const char *value;
        remat_layer layer; /* may be none */
        uint64_t bytes;
    } * kept; /* largest first */
};

/* The reason why nothing fits a budget. */
struct remat_refusal {
    uint64_t budget_bytes;
    uint64_t smallest_bytes; /* budget for the smallest plan: arena and reserve; 0: not known yet */
    uint64_t reserve_bytes;
    uint64_t floor_bytes; /* proven: no smaller budget fits; 0: nobody asked */
    bool pinned;          /* the floor holds for decisions that keep the pins */
    /* Buffers, commands and decisions of the smallest plan; without names of files and settings.
     * NULL: not known yet. */
    const struct remat_program *smallest;
};

struct remat_search_settings {
    bool has_budget;
    uint64_t budget_bytes;
    struct remat_policy_settings policy;
    enum remat_solver solver;
    /* Called between the candidates of a search; true ends it with the best so far, which a note of
     * the plan then says. NULL: searches end by themselves. */
    bool (*is_over)(void *user, const struct remat_search_state *state);
    void *is_over_user;
    /* Show a search, for --print-plan; NULL: not called. `tried` is called at the end of each
     * queue, then, where there is a bound, `bounded`, then `tried` with what is carried out as the
     * only proposal of a list. Their arguments are valid during the call. */
    void (*bounded)(void *user, const struct remat_binding *binding);
    void (*tried)(void *user, const struct remat_tried_list *list);
    void *search_user;
    /* Called before REMAT_ERROR_INFEASIBLE, where the message says what needs least, and as soon as
     * it is proven that nothing fits, whatever the pieces of gradients where `briefly`; NULL: not
     * called. Its argument is valid during the call. */
    void (*refused)(void *user, const struct remat_refusal *refusal);
    void *refused_user;
    bool briefly; /* there is another attempt, with other pieces of gradients, where nothing fits:
                     what needs least is not looked for, and the message does not name it */
};

/* Step time against memory, from the largest to the smallest and, strictly, from the fastest to the
 * slowest. Bytes are live peaks: an arena may need more. */
struct remat_front_point {
    const char *policy; /* a manual policy, or "per-op" */
    uint64_t live_peak_bytes;
    uint64_t step_ns;
    uint64_t bound_ns; /* that no plan with this live peak beats; 0: unless `bounded` */
};

struct remat_front {
    /* Given: more candidates, a plan and resolved policies, or NULL, 0. The rest is found. */
    const struct remat_program *plan;
    const struct remat_policy *policies;
    uint32_t policy_count;
    struct remat_front_point *points;
    uint32_t count;
    struct remat_front_point *priced; /* by policy, without a bound; step_ns 0: none */
    uint32_t decision_count;          /* in all */
    uint32_t seen_count;              /* priced or, in small graphs, found to be no better */
    uint32_t evaluated_count;         /* priced */
    bool cut_short;                   /* by is_over */
    bool bounded;                     /* there are bounds: solver per-op */
    uint64_t base_ns;                 /* step with everything saved */
    uint64_t floor_bytes;             /* no live peak is below; 0: not known */
    uint64_t reserve_bytes;           /* beside the live peak in a budget */
};

#endif
