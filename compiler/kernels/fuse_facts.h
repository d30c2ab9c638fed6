/* SPDX-License-Identifier: Apache-2.0 */
/* What fuse asks of every node of a graph, in few bytes: many sequences of one graph are fused.
 * Private to fuse*.c but for creating it and the index space of a node. */
#ifndef REMAT_FUSE_FACTS_H
#define REMAT_FUSE_FACTS_H

#include "ops.h"

/* Beside those of enum remat_op_fact, which are the low bits. */
enum remat_fuse_fact {
    REMAT_FUSE_INLINE = 1 << 16, /* a constant or a column: made anew in each kernel program */
    REMAT_FUSE_COLUMN = 1 << 17, /* a column */
    REMAT_FUSE_CAST = 1 << 18,   /* a cast */
    REMAT_FUSE_WIDENS = 1 << 19, /* a cast from bf16 to f32 */
    REMAT_FUSE_ROLE = 1 << 20,   /* its first output is no activation */
};

struct remat_fuse_node {
    uint32_t facts;
    uint32_t output;                 /* the first one */
    const struct remat_shape *space; /* the index space that it needs */
    int64_t elements;                /* of that */
    uint32_t input_count;
    const remat_value *inputs;
    uint32_t output_count;
    uint8_t bucket; /* its phase, forward for loss; nodes of two run in no kernel together */
};

struct remat_fuse_facts {
    struct remat_fuse_node *nodes;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } lasting; /* values that outlive the step's commands: outputs, states, gradients */
};

/* The index space that a node needs. */
const struct remat_shape *remat_fuse_space(const struct remat_graph *graph,
                                           const struct remat_node_info *node);

/* Lies in the arena; the graph's nodes, values and shapes stay as they are, inputs may change where
 * they lie, to others of the same shape. */
struct remat_fuse_facts remat_fuse_facts_create(struct remat_arena *arena,
                                                const struct remat_graph *graph);

#endif
