/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules on a fixed ladder of budgets, from the peak of the given order down to the least peak
 * found. No budget asked for has a part in it: what is found fits in every larger one. */
#ifndef REMAT_DESCEND_H
#define REMAT_DESCEND_H

#include "local_search.h"
#include "simulate.h"

struct remat_rung {
    struct remat_sequence sequence;
    struct remat_simulation result;
};

/* In the order found; the first is the given order. */
struct remat_descent REMAT_LIST(struct remat_rung);

/* `moves`: of annealing, in all, about. Deadline: what was found so far. In the arena. */
remat_status remat_descend(struct remat_arena *arena, const struct remat_problem *problem,
                           const struct remat_sequence *given, double moves,
                           struct remat_deadline *deadline, struct remat_descent *out);

/* The fastest within the budget; without any, the one of the least peak. */
const struct remat_rung *remat_descent_within(const struct remat_descent *descent, uint64_t budget);

#endif
