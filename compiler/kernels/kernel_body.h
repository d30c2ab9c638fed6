/* SPDX-License-Identifier: Apache-2.0 */
/* Operands and instructions of one kernel, from its nodes. */
#ifndef REMAT_KERNEL_BODY_H
#define REMAT_KERNEL_BODY_H

#include "fuse.h"

/* Hash of the kind and of a fused kernel's instructions; `body` is NULL for a built-in kernel. */
uint64_t remat_kernel_hash(uint32_t kind, const struct remat_kernel_body *body);
/* The 32 bits of a fused kernel's hash that its printed key has. */
uint32_t remat_kernel_key_hash(const struct remat_kernel_info *kernel);

/* The latest views of operands, for reuse: a model has few different ones. */
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
                      struct remat_kernel_info *kernel);
void remat_builtin_body(struct remat_kernel_writer *writer, struct remat_kernel_info *kernel);

/* Fills `shared`. */
void remat_kernel_list_shared(struct remat_arena *arena, const struct remat_graph *graph,
                              struct remat_kernel_info *kernel);

#endif
