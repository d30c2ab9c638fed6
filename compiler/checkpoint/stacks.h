/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of layers, found by structure: no name or scope counts. */
#ifndef REMAT_STACKS_H
#define REMAT_STACKS_H

#include "graph.h"

REMAT_INDEX(remat_stack_id);
REMAT_INDEX(remat_span_id); /* of a stack, or of a way to the loss */

/* A *bottleneck* of a value's way to the loss is a value that the whole way goes through. Between
 * two bottlenecks lies a *span*: the nodes from the first to the second, the second among them, and
 * those that only they read. Spans that repeat with some period, and have a product in it, are a
 * stack. Two are the same if their nodes are, in ops, attributes (but for the numbers of random
 * sites), types, and who reads what. Where in the period a layer begins is not said. */
struct remat_stack {
    uint32_t period, length;  /* in spans; at least two periods, and perhaps a part of one */
    remat_value *bottlenecks; /* by span: the value that it leads to */
};

struct remat_stacks {
    uint32_t count;
    struct remat_stack *stacks;
    remat_stack_id *stack_of; /* by node: none outside stacks, and after the loss */
    remat_span_id *span_of;   /* by node, as stack_of: of that stack */
};

/* `written`, by value: no other is a bottleneck. The result lies in the arena. */
void remat_stacks_find(struct remat_arena *arena, const struct remat_graph *graph,
                       const bool *written, struct remat_stacks *out);

#endif
