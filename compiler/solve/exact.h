/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest schedule of a small problem, by exhaustion in order of cost. */
#ifndef REMAT_EXACT_H
#define REMAT_EXACT_H

#include "local_search.h"
#include "problem.h"

#define REMAT_EXACT_NODES_MAX 64u

struct remat_exact {
    bool solved;     /* `sequence` is a fastest one (in ticks) */
    bool infeasible; /* proven: no schedule fits */
    uint64_t ticks;  /* every schedule that fits takes at least this many beyond the sum */
    struct remat_sequence sequence;
};

/* `limit`: schedules that take this many ticks beyond the sum, or more, are of no interest
 * (infeasible then means: none below). Gives up after `states_max`, at least 2, and at once where
 * there are more than REMAT_EXACT_NODES_MAX nodes, not counting those without inputs, users, time
 * and bytes. */
struct remat_exact remat_exact_solve(struct remat_arena *arena, const struct remat_problem *problem,
                                     uint64_t budget, uint64_t limit, uint32_t states_max,
                                     struct remat_deadline *deadline);

#endif
