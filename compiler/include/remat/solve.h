/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of bare problems (docs/problems.md): nodes with a time and a size, no graph and no
 * device.
 *
 * Handles, strings and structs as in compile.h. The same problem, budget and effort give the same
 * sequence in every process, unless the search is cancelled. */
#ifndef REMAT_PUBLIC_SOLVE_H
#define REMAT_PUBLIC_SOLVE_H

#include <remat/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Another mode of `node`: the values of the nodes fused[fused_begin .. fused_end) are made
 * inside. */
typedef struct remat_problem_mode {
    uint32_t node;
    uint32_t fused_begin, fused_end;
    uint64_t workspace_bytes;
    double time;
} remat_problem_mode;

/* Arrays are by node, in an order in which the nodes can run; those that may be NULL say nothing.
 */
typedef struct remat_problem_spec {
    size_t struct_size;
    uint32_t node_count, mode_count;
    const char *const *names; /* of messages; may be NULL */
    const double *time;       /* finite, not negative */
    const uint64_t *bytes;    /* of the node's value, from its run to the last that reads it */
    const uint32_t *
        input_begin; /* node_count + 1: node n reads inputs[input_begin[n] .. input_begin[n + 1]) */
    const uint32_t *inputs;          /* earlier nodes */
    const uint64_t *workspace_bytes; /* during the run; may be NULL */
    const uint64_t *lasting_bytes;   /* from the first run to the end; may be NULL */
    const bool *once;                /* never runs again; may be NULL */
    const uint32_t
        *alias; /* the node in whose storage the value lies; UINT32_MAX: its own; may be NULL */
    const remat_problem_mode *modes;
    const uint32_t *fused;
    uint64_t static_bytes; /* live all the time */
} remat_problem_spec;

/* At a budget; while a search goes on, of the best so far. */
typedef struct remat_solved_info {
    size_t struct_size;
    bool fits;
    bool impossible; /* proven: nothing fits */
    bool cancelled;
    uint64_t peak_bytes;       /* of the sequence; where nothing fits, the smallest found */
    uint64_t floor_bytes;      /* no sequence has a smaller peak */
    uint32_t floor_node;       /* which needs that */
    uint64_t given_peak_bytes; /* of the nodes in the given order */
    double time, given_time;
    double lower_bound; /* of the time of any sequence within the budget */
} remat_solved_info;

typedef struct remat_solve_settings {
    size_t struct_size;
    uint64_t budget_bytes;
    double effort; /* 1: about a second for some hundred nodes; work is proportional to it */
    /* Asked now and then; true ends the search with the best so far. NULL: never. */
    bool (*is_cancelled)(void *user);
    void *user;
    double seconds; /* above 0, in place of effort: as much work as takes a slow machine so long */
    /* Told now and then what is known at a budget, of several the index; NULL: not told. */
    void (*progress)(void *user, uint32_t budget, const remat_solved_info *best);
} remat_solve_settings;

/* --- one budget --- */

typedef struct remat_solved remat_solved;

/* REMAT_ERROR_INVALID, naming the node: the problem contradicts itself. That nothing fits is a
 * result. */
REMAT_API remat_status remat_solved_create(remat_context *ctx, const remat_problem_spec *problem,
                                           const remat_solve_settings *settings,
                                           remat_solved **out);
REMAT_API void remat_solved_destroy(remat_solved **solved);
REMAT_API void remat_solved_get_info(const remat_solved *solved, remat_solved_info *out);

/* The sequence: nodes, or node_count + m for mode m. Where nothing fits, the sequence of the
 * smallest peak. */
REMAT_API const uint32_t *remat_solved_runs(const remat_solved *solved, uint32_t *out_count);

/* --- several budgets --- */

/* A problem, with what holds at every budget: budgets may be chosen by it. Immutable. */
typedef struct remat_problem_solver remat_problem_solver;

/* As remat_solved_create. Of the settings, cancellation counts: it leaves a lower floor. */
REMAT_API remat_status remat_problem_solver_create(remat_context *ctx,
                                                   const remat_problem_spec *problem,
                                                   const remat_solve_settings *settings,
                                                   remat_problem_solver **out);
REMAT_API void remat_problem_solver_destroy(remat_problem_solver **solver);

typedef struct remat_problem_solver_info {
    size_t struct_size;
    uint64_t floor_bytes, given_peak_bytes;
    uint32_t floor_node;
    bool cancelled;
    double given_time, least_time; /* least: of each node's fastest mode */
} remat_problem_solver_info;
REMAT_API void remat_problem_solver_get_info(const remat_problem_solver *solver,
                                             remat_problem_solver_info *out);

/* One solution for each budget, into out[0 .. budget_count); they are destroyed one by one. Budgets
 * descend, and more budget is never slower. The budget of the settings does not count. */
REMAT_API remat_status remat_problem_solver_solve(const remat_problem_solver *solver,
                                                  remat_context *ctx,
                                                  const remat_solve_settings *settings,
                                                  const uint64_t *budgets, uint32_t budget_count,
                                                  remat_solved **out);

#ifdef __cplusplus
}
#endif

#endif
