/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of kernels: which run in graph order, and when all others do. lower/schedule.h carries it
 * out; what is live depends on it. */
#ifndef REMAT_TURN_H
#define REMAT_TURN_H

#include "kernel_list.h"

enum remat_turn {
    REMAT_TURN_IN_ORDER, /* in graph order */
    /* An optimizer's: as soon as all that it waits for has run, so that a gradient dies early. It
     * waits for kernels that make what it reads, or read a version that it replaces. */
    REMAT_TURN_EARLY,
    /* An optimizer's that takes this rank's part of a parameter: waits for nothing, right before
     * the update that reads it. */
    REMAT_TURN_BEFORE_READER,
};

static inline enum remat_turn remat_turn_of(const struct remat_kernel_info *kernel)
{
    if (kernel->phase != REMAT_PHASE_OPTIMIZER)
        return REMAT_TURN_IN_ORDER;
    return kernel->kind == REMAT_KERNEL_batch_slice ? REMAT_TURN_BEFORE_READER : REMAT_TURN_EARLY;
}

/* Facts of turns that hold in every decision; by kernel of the graph that saves everything. */
struct remat_turns {
    remat_kernel_id *after; /* itself; of the optimizer: it runs after this one, the last that makes
                               what it reads, unless all of that is given: kernel 0 */
    bool *first;            /* it is EARLY, reads only what is given, and replaces nothing */
};
struct remat_turns remat_turns_find(struct remat_arena *arena, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels);

#endif
