/* SPDX-License-Identifier: Apache-2.0 */
/* What lies between the bottlenecks of one way to the loss. */
#ifndef REMAT_SPANS_H
#define REMAT_SPANS_H

#include "post_dominators.h"

struct remat_span {
    uint32_t end;   /* the bottleneck that it leads to; the one before begins it */
    uint32_t nodes; /* how many */
    bool product;   /* one of them is one */
    uint64_t hash;  /* of what its last bottleneck is made of: ops, attributes (but for the numbers
                       of  random sites), types, and who reads what */
};

struct remat_spans {
    uint32_t count;
    struct remat_span *items; /* in order */
    uint32_t *in;             /* by node: which one it lies in, REMAT_NONE: none */
    /* private */
    struct remat_arena *arena;
    const struct remat_graph *graph;
    uint32_t *place;   /* by value: number of the span that it begins */
    uint32_t *home;    /* by node: where all that reads it is */
    uint64_t *hash;    /* by node */
    uint32_t *readers; /* by node: in its span, of what the last bottleneck is made of */
};

/* Belongs to one thread; memory is the arena's. */
void remat_spans_init(struct remat_arena *arena, const struct remat_graph *graph,
                      struct remat_spans *out);

/* Those on the way from `source`, a value that leads to the exit of the tree. Bottlenecks are what
 * the whole way goes through and `written`, by value, says; and the source, and the exit. O(inputs
 * of all nodes). */
void remat_spans_follow(struct remat_spans *spans, const struct remat_post_dominators *tree,
                        const bool *written, uint32_t source);

#endif
