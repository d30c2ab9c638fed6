/* SPDX-License-Identifier: Apache-2.0 */
/* Small training graphs at random: what forward passes are made of, in any order. */
#ifndef TESTS_UNIT_SEARCH_RANDOM_GRAPH_H
#define TESTS_UNIT_SEARCH_RANDOM_GRAPH_H

#include "device_description.h"
#include "graph.h"

struct random {
    uint32_t seed, draws;
    bool mixed; /* graphs have row values, broadcasts and views, too */
    bool typed; /* with mixed: and bf16, casts, lookups, and values that take most room later */
};

/* Equally likely, from 0 to below `below`. */
uint32_t random_draw(struct random *r, uint32_t below);

/* Pointwise ops, products, norms, softmax and dropout over values of a few widths, up to `nodes` of
 * them, then a head and its loss; with `layers` above 0 so many layers one after the other, equal
 * but where one begins with another width.
 * Without an optimizer. */
remat_status random_graph(remat_context *ctx, struct remat_arena *arena, struct random *r,
                          uint32_t nodes, uint32_t layers, struct remat_graph **out);

/* The same with its backward pass, of which nodes that need no other of its nodes may be forward
 * ones, as a graph that arrives joint may have them. */
remat_status random_joint(struct remat_arena *arena, struct random *r,
                          const struct remat_graph *graph, struct remat_graph **out);

/* A joint graph of foreign nodes: pointwise ones, rows' reductions, what is made of these, vectors,
 * views and opaque nodes, up to `nodes` or twice as many; then a backward pass that reads some of
 * it, in reverse, and sums over columns. */
remat_status random_foreign(remat_context *ctx, struct remat_arena *arena, struct random *r,
                            uint32_t nodes, struct remat_graph **out);

/* Moves the rates away from those described, so that now this, now that dominates; launches are
 * short, as beside large kernels. */
void random_rates(struct random *r, struct remat_device_description *device);

/* A device so slow that rounding to nanoseconds is nothing, on which about as many fused kernels
 * are bound by arithmetic as by memory. */
void random_balance(struct random *r, struct remat_device_description *device);

#endif
