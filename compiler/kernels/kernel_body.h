/* SPDX-License-Identifier: Apache-2.0 */
/* From the nodes of one kernel to its operands and instructions. */
#ifndef REMAT_KERNEL_BODY_H
#define REMAT_KERNEL_BODY_H

#include "fuse.h"

/* Equal for equal kernels: of the kind and, of a fused kernel (else NULL), the instructions. */
uint64_t remat_kernel_hash(uint32_t kind, const struct remat_kernel_body *body);
/* The same of a fused kernel in 32 bits, as its printed key has it. */
uint32_t remat_kernel_key_hash(const struct remat_fused_kernel *kernel);

/* The latest views of operands, which others share: a model has few different ones. */
#define REMAT_VIEWS_SHARED 8
struct remat_shared_views {
    const struct remat_view *items[REMAT_VIEWS_SHARED]; /* in the arena of kernels */
    uint32_t next;
};

struct remat_kernel_writer {
    struct remat_arena *arena;   /* of kernels */
    struct remat_arena *scratch; /* of one kernel while it is written */
    const struct remat_graph *graph;
    const uint32_t *kernel_of; /* by node: REMAT_NONE where it is absorbed (fuse.h) */
    struct remat_shared_views views;
};

/* `stored` as for remat_kernel_write. Fills operands, body and parameters of a kernel whose nodes,
 * kind and space are set. */
void remat_fused_body(struct remat_kernel_writer *writer, const bool *stored,
                      struct remat_fused_kernel *kernel);
void remat_builtin_body(struct remat_kernel_writer *writer, struct remat_fused_kernel *kernel);

/* Fills `shared`. */
void remat_kernel_list_shared(struct remat_arena *arena, const struct remat_graph *graph,
                              struct remat_fused_kernel *kernel);

#endif
