/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that no plan is about: without inputs, users, time and bytes. A problem without them has
 * the same plans, and may be small enough for exhaustion. */
#ifndef REMAT_IDLE_H
#define REMAT_IDLE_H

#include "problem.h"

struct remat_idle {
    uint32_t count;            /* of them */
    bool *idle;                /* by node of the problem */
    uint32_t *way_of;          /* by way of `rest`: way of the problem */
    struct remat_problem rest; /* the other nodes */
};

/* Whether there are some, and others too. *out lies in the arena. */
bool remat_idle_find(struct remat_arena *arena, const struct remat_problem *problem,
                     struct remat_idle *out);

/* A sequence of `rest` as one of the problem: each idle node runs before the first greater node. */
struct remat_sequence remat_idle_restore(struct remat_arena *arena,
                                         const struct remat_problem *problem,
                                         const struct remat_idle *idle,
                                         const struct remat_sequence *sequence);

#endif
