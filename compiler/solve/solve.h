/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of bare problems: a fast sequence within a budget, a lower bound on every other one,
 * and a floor below which there is none. */
#ifndef REMAT_SOLVE_H
#define REMAT_SOLVE_H

#include "problem.h"
#include "solvers.h"

struct remat_solution {
    bool fits;
    bool impossible;                /* proven: nothing fits */
    struct remat_sequence sequence; /* fits: fast and within the budget; else of a low peak */
    struct remat_simulation result; /* of the sequence, by the simulator */
    double lower_bound;             /* time of any sequence within the budget, at least */
};

struct remat_solve_options {
    double effort; /* 1: about a second for some hundred nodes; work is proportional to it */
    struct remat_deadline *deadline; /* may be NULL: then the result depends on nothing else */
    /* Told the best so far at a budget, now and then; may be NULL. */
    void (*progress)(void *user, uint32_t budget, const struct remat_solution *best);
    void *user;
};

/* The effort that a slow machine has done after so many seconds at one budget. */
double remat_solve_effort(const struct remat_problem *problem, double seconds);

/* The peak of the given order, which percentages refer to. */
remat_status remat_solve_given_order(struct remat_arena *arena, const struct remat_problem *problem,
                                     struct remat_solution *out);

/* Budgets descend. The solutions are monotone: never slower at a larger budget of the same call.
 * A bound above the time of a sequence that fits is REMAT_ERROR_INTERNAL before progress is told.
 */
remat_status remat_solve(struct remat_arena *arena, const struct remat_problem *problem,
                         const uint64_t *budgets, uint32_t budget_count,
                         const struct remat_solve_options *options, struct remat_solution *out);

#endif
