/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler: training graph + budget -> plan. compile.c is the pipeline. */
#ifndef REMAT_COMPILE_H
#define REMAT_COMPILE_H

#include "compile_settings.h"

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

/* Bounds that hold for every plan, whatever the policy. */
struct remat_bound {
    uint64_t step_ns; /* no step within the budget takes less; 0: nothing fits */
    /* Budgets, with the reserve: */
    uint64_t floor_bytes;  /* no plan needs less */
    uint64_t static_bytes; /* the persistent memory of each */
};

/* The bound of remat_compile, in a fraction of its time. Pins count. */
remat_status remat_compile_bound(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_bound *out);

/* The order that the plan of remat_compile runs, before it is lowered: for graphs that are planned
 * alone, those with foreign nodes among them. */
struct remat_found_order {
    const char *policy;
    uint64_t arena_bytes, live_peak_bytes, static_bytes; /* without the reserve */
    uint64_t reserve_bytes, floor_bytes;                 /* floor: of a budget; 0: not known */
    uint64_t step_ns, base_ns, bound_ns;                 /* bound 0: not known */
    bool cut_short;                                      /* by settings->search.is_over */
    uint32_t run_count;
    const struct remat_found_run {
        remat_node node; /* of the given graph, if it has foreign nodes; else of what passes made of
                            it. No view */
        uint32_t round;  /* 0: the first run */
        uint32_t position; /* of the kernel in the order */
        bool stored;       /* some result is written to memory */
    } * runs;
    /* With settings->explains; else 0. Live in the arena. */
    uint32_t decision_count;
    const struct remat_decision_record *decisions;
};

/* As remat_compile. */
remat_status remat_compile_order(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_found_order *out);

/* The plans that remat_compile would choose from at any budget, by live peak (search/front.c);
 * budget and policies of `settings` are not looked at, pins are. The points lie in `arena`; there
 * is one at least, however early the search is ended, or REMAT_ERROR_CUT_SHORT. Thread-compatible;
 * deterministic unless the search is ended. */
remat_status remat_compile_front(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_front *front);

#endif
