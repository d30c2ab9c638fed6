/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler: training graph + budget -> plan. compile.c is the pipeline. */
#ifndef REMAT_COMPILE_H
#define REMAT_COMPILE_H

#include "device_description.h"
#include "graph.h"
#include "passes.h"
#include "path.h"
#include "policy.h"
#include "program.h"
#include "refusal.h"

/* Who decides when there is a budget and no policy. */
enum remat_solver {
    REMAT_SOLVER_PER_OP, /* the planner, value by value */
    REMAT_SOLVER_MANUAL, /* the fastest manual policy */
};

/* The state of a search. Times are of a step; 0: not known yet. */
struct remat_search_state {
    uint64_t best_ns;  /* of the fastest plan that fits; of a curve, of the fastest one priced */
    uint64_t bound_ns; /* no plan that fits beats this */
    /* Of a curve alone. */
    uint64_t least_bytes;              /* smallest live peak */
    uint32_t seen_count, to_see_count; /* decisions priced; of how many */
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

/* Those of one queue, in the order in which they were scheduled. */
struct remat_tried_list {
    const char *name;
    uint32_t proposal_count, count; /* in the queue; of these, scheduled */
    const struct remat_tried *items;
};

/* Where the bound of a budget is found ("The bound" in docs/planning.md): the first run of a
 * kernel, and a minimum cut there. */
struct remat_binding {
    uint64_t bound_ns; /* of a step */
    const char *kernel, *phase;
    uint64_t static_bytes, other_bytes; /* live there in every plan */
    uint64_t room_bytes;                /* the rest of the arena */
    uint64_t kept_bytes;                /* of what the cut keeps */
    double price_ps;                    /* of a byte */
    uint32_t kept_count;
    const struct remat_kept {
        const char *value;
        remat_region layer; /* may be none */
        uint64_t bytes;
    } * kept; /* largest first */
};

struct remat_compile_settings {
    bool has_budget, has_reserve;
    uint64_t budget_bytes;
    uint64_t reserve_bytes; /* replaces the device description's */
    struct remat_device_description device;
    struct remat_policy_settings policy;
    enum remat_solver solver;
    uint32_t setting_count; /* recorded in the plan as given */
    const struct remat_setting *settings;
    const char *chosen_by; /* recorded in the plan; NULL: none */
    /* Called with the graph after each pass, for --print-after; NULL: not called. */
    void (*after_pass)(void *user, const char *pass, const struct remat_graph *graph);
    void *after_pass_user;
    /* Called with the CPU time of each pass and each stage (stopwatch.h), for -v, and how often it
     * ran. NULL: no clock is read. */
    void (*pass_time)(void *user, const char *pass, uint64_t ns, uint32_t runs);
    void *pass_time_user;
    /* Called between the candidates of a search; true ends it with the best so far, which a note of
     * the plan then says. NULL: searches end by themselves. */
    bool (*is_over)(void *user, const struct remat_search_state *state);
    /* Called again and again until there is a plan, or a point of the curve. True: the time limit
     * has passed, which ends compilation with REMAT_ERROR_CUT_SHORT. NULL: there is none. */
    bool (*is_late)(void *user);
    void *is_over_user; /* of both */
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
    bool needs_cuda;        /* a command without CUDA text is an error, not a note */
    bool without_cuda;      /* no CUDA text: the plan is looked at, not kept */
    struct remat_mesh mesh; /* of the ranks that run the plan */
    struct remat_pass_settings passes;
};

/* Compiles a verified graph. With neither policy nor budget nothing is recomputed; with a policy it
 * is applied; with a budget alone the solver decides (search/search.h). Entry
 * points: init; train, which is absent where nothing is trained; eval, without dropout. With
 * several microbatches the decision is about one of them, and train and eval read inputs of the
 * whole batch and average over it (passes.h). With several ranks the plan is that of each; budget,
 * bytes and times are one rank's, inputs those of all. The result lies in `arena` and has passed
 * the placement checker and the simulator. REMAT_ERROR_INFEASIBLE: nothing fits; the message names
 * the smallest feasible budget. REMAT_ERROR_CUT_SHORT: the search was ended with nothing found,
 * though what is likely smallest was tried nevertheless; or `is_late` said so.
 * Thread-compatible; deterministic unless a search is ended. */
remat_status remat_compile(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_compile_settings *settings,
                           struct remat_program **out);

/* What holds of every plan, of whatever policy. */
struct remat_bound {
    uint64_t step_ns; /* no step within the budget takes less; 0: nothing fits */
    /* Of a budget, with the reserve: */
    uint64_t floor_bytes;  /* no plan needs less */
    uint64_t static_bytes; /* the persistent memory of each */
};

/* The bound of remat_compile, for a part of its time. Pins are looked at. */
remat_status remat_compile_bound(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_bound *out);

/* Step time against memory, from the largest to the smallest and, strictly, from the fastest to the
 * slowest. Bytes are live peaks: an arena may need more. */
struct remat_frontier_point {
    const char *policy; /* a manual policy, or "per-op" */
    uint64_t live_peak_bytes;
    uint64_t step_ns;
    uint64_t bound_ns; /* that no plan with this live peak beats; 0: unless `bounded` */
};

struct remat_frontier {
    /* Given: more candidates, a plan and resolved policies, or NULL, 0. The rest is found. */
    const struct remat_program *plan;
    const struct remat_policy *policies;
    uint32_t policy_count;
    struct remat_frontier_point *points;
    uint32_t count;
    struct remat_frontier_point *priced; /* by policy, without a bound; step_ns 0: none */
    uint32_t decision_count;             /* in all */
    uint32_t seen_count;                 /* priced or, in small graphs, found to be no better */
    uint32_t evaluated_count;            /* priced */
    bool cut_short;                      /* by settings->is_over */
    bool bounded;                        /* there are bounds: solver per-op */
    uint64_t base_ns;                    /* step with everything saved */
    uint64_t floor_bytes;                /* no live peak is below; 0: not known */
    uint64_t reserve_bytes;              /* beside the live peak in a budget */
};

/* The plans that remat_compile would choose from at any budget, by live peak (search/front.c);
 * budget and policies of `settings` are not looked at, pins are. The points lie in `arena`; there
 * is one at least, however early the search is ended, or REMAT_ERROR_CUT_SHORT. Thread-compatible;
 * deterministic unless the search is ended. */
remat_status remat_compile_frontier(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph,
                                    const struct remat_compile_settings *settings,
                                    struct remat_frontier *frontier);

#endif
