/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to keep saved candidates by kernels: one puts a value away after the kernel that writes it;
 * another gets it back before the first kernel of the backward pass, or rerun, that reads it. Their
 * nodes come after those of the given graph. */
#ifndef REMAT_KEEPS_H
#define REMAT_KEEPS_H

#include "border.h"
#include "price.h"

struct remat_keep {
    remat_value value;        /* the candidate */
    remat_value whole;        /* of remat_keeps.graph: the same again */
    remat_kernel_id put, get; /* of remat_keeps.kernels */
};

struct remat_keeps {
    const struct remat_graph *graph; /* the given one, with the same ids, and nodes after its own */
    uint32_t *begin;                 /* by value of the given graph, and one more: of ways */
    uint32_t way_count;
    struct remat_border_way *ways; /* bytes, price, action */
    struct remat_keep *keeps;      /* by way */
    remat_kernel_id *kernel_of;    /* by node that is made: of `kernels`; none: it is a view */
    struct remat_kernel_list kernels;
    struct remat_price *prices;
};

/* For all candidates; empties the scratch. In the arena; shares what the graph points to. */
struct remat_keeps remat_keeps_create(struct remat_arena *arena, struct remat_arena *scratch,
                                      const struct remat_graph *graph, const bool *candidates,
                                      const struct remat_device_description *device);

/* The candidate's way of that action; NULL: it has none, and is in place. */
static inline const struct remat_keep *remat_keeps_find(const struct remat_keeps *keeps,
                                                        remat_value v, uint32_t action)
{
    for (uint32_t w = keeps->begin[v.i]; w < keeps->begin[v.i + 1]; w++)
        if (keeps->ways[w].action == action)
            return &keeps->keeps[w];
    return NULL;
}

#endif
