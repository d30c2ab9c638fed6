/* SPDX-License-Identifier: Apache-2.0 */
/* The static floor of the arena: the tensors that live through every segment of a plan. */
#ifndef REMAT_STATICS_H
#define REMAT_STATICS_H

#include "graph.h"
#include "index.h"

struct remat_static {
    const struct remat_value_info *info; /* as in the first graph that has it */
    uint64_t offset_bytes, bytes;        /* offset a multiple of REMAT_ALIGNMENT */
};

struct remat_statics {
    struct remat_static *items; /* in order of appearance, at rising offsets */
    uint32_t count;
    size_t capacity;
    struct remat_index by_name;
    uint64_t workspace_bytes; /* after the tensors: what kernels may use while they run */
    uint64_t total_bytes;     /* a multiple of REMAT_ALIGNMENT; workspace included */
};

/* Collects the inputs and outputs of the graphs; those of equal name are one tensor and must agree
 * in dtype and shape. `graphs`, whose values have passed remat_price_check_values, outlive the
 * result. `workspace_bytes` is a device's, 0: it has none; the result's is what the graphs need at
 * least. */
struct remat_statics remat_statics_collect(struct remat_arena *arena,
                                           const struct remat_graph *const *graphs,
                                           uint32_t graph_count, uint64_t workspace_bytes);

/* The index of the tensor of that name, REMAT_NONE when there is none. */
uint32_t remat_statics_find(const struct remat_statics *statics, const char *name);

/* By value of the graph: which tensor an input is, REMAT_NONE for what a node computes. Every input
 * of the graph is one of the statics. */
uint32_t *remat_statics_inputs(struct remat_arena *arena, const struct remat_statics *statics,
                               const struct remat_graph *graph);

#endif
