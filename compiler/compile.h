/* The compiler: training graph + budget -> plan. compile.c is the pipeline. */
#ifndef REMAT_COMPILE_H
#define REMAT_COMPILE_H

#include "device_description.h"
#include "graph.h"
#include "policy.h"
#include "program.h"

enum remat_solver {                      /* who decides when there is a budget and no policy */
                    REMAT_SOLVER_PER_OP, /* the planner, value by value */
                    REMAT_SOLVER_LADDER, /* the fastest manual policy */
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
    /* Called with the graph after each pass, for --print-after; NULL: not called. */
    void (*after_pass)(void *user, const char *pass, const struct remat_graph *graph);
    void *after_pass_user;
    /* Called with the CPU time of each pass and each stage (stopwatch.h), for -v, and how often it
     * ran. NULL: no clock is read. */
    void (*pass_time)(void *user, const char *pass, uint64_t ns, uint32_t runs);
    void *pass_time_user;
    uint32_t microbatches; /* of a step, each with the batch of the graph; 0 as 1 */
    uint64_t guard_bytes;  /* tests only: unused bytes after each buffer */
};

/* Compiles a verified graph. With neither policy nor budget nothing is recomputed; with a policy it
 * is applied; with a budget alone the solver decides (choose.h). Entry
 * points: init; train, which is absent where nothing is trained; eval, without dropout. With
 * several microbatches the decision is about one of them, and train and eval read inputs of the
 * whole batch and average over it (passes.h). The result lies in `arena` and has passed the
 * placement checker and the simulator. REMAT_ERROR_INFEASIBLE: nothing fits; the message names the
 * smallest feasible budget, the binding command and its largest residents. Thread-compatible;
 * deterministic. */
remat_status remat_compile(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_compile_settings *settings,
                           struct remat_program **out);

/* The names that after_pass is called with, in order, NULL-terminated. */
const char *const *remat_compile_passes(void);

#endif
