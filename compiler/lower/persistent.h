/* SPDX-License-Identifier: Apache-2.0 */
/* The persistent range at the bottom of the arena: the tensors that live through every segment of a
 * plan. */
#ifndef REMAT_PERSISTENT_H
#define REMAT_PERSISTENT_H

#include "graph.h"
#include "index.h"

REMAT_INDEX(remat_tensor_id); /* of struct remat_persistent */
#define REMAT_NO_TENSOR ((remat_tensor_id){REMAT_NONE})

struct remat_persistent_tensor {
    const struct remat_value_info *info; /* as in the first graph that has it */
    uint64_t offset_bytes, bytes;        /* offset a multiple of REMAT_ALIGNMENT */
};

struct remat_persistent {
    struct remat_persistent_tensor *items; /* in order of appearance, at rising offsets */
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
struct remat_persistent remat_persistent_collect(struct remat_arena *arena,
                                                 const struct remat_graph *const *graphs,
                                                 uint32_t graph_count, uint64_t workspace_bytes);

/* The tensor of that name, REMAT_NO_TENSOR when there is none. */
remat_tensor_id remat_persistent_find(const struct remat_persistent *persistent, const char *name);

/* By value of the graph: which tensor an input is, none for what a node computes. Every input of
 * the graph is persistent. */
remat_tensor_id *remat_persistent_inputs(struct remat_arena *arena,
                                         const struct remat_persistent *persistent,
                                         const struct remat_graph *graph);

#endif
