/* SPDX-License-Identifier: Apache-2.0 */
/* Which values everything goes through on the way to the loss. */
#ifndef REMAT_POST_DOMINATORS_H
#define REMAT_POST_DOMINATORS_H

#include "graph.h"

/* A tree over the values that graph inputs and the nodes of the forward pass and the loss give;
 * of the results of one node the first stands for all. */
struct remat_post_dominators {
    uint32_t exit;   /* the root: what the last such node gives that the backward pass reads from;
                        REMAT_NONE: there is none */
    uint32_t *next;  /* by value: the nearest other one that every way from it to the exit goes
                        through; REMAT_NONE: the exit, and what does not lead there */
    uint32_t *depth; /* by value: how many others that is until the exit */
    uint32_t *jump;  /* private */
};

/* In O(n log n), n: inputs of all nodes. The result lies in the arena. */
void remat_post_dominators_find(struct remat_arena *arena, const struct remat_graph *graph,
                                struct remat_post_dominators *out);

/* The value that stands for this one in the tree. */
static inline uint32_t remat_representative(const struct remat_graph *graph, uint32_t value)
{
    uint32_t node = graph->values[value].node;
    return node == REMAT_NONE ? value : graph->nodes[node].outputs[0].i;
}

#endif
