/* SPDX-License-Identifier: Apache-2.0 */
/* Writes kernels: operands and instructions from nodes. */
#ifndef REMAT_KERNEL_BODY_H
#define REMAT_KERNEL_BODY_H

#include "kernel_list.h"

/* Hash of the kind and of a fused kernel's instructions; `body` is NULL for a built-in kernel. */
uint64_t remat_kernel_hash(uint32_t kind, const struct remat_kernel_body *body);
/* The 32 bits of a fused kernel's hash that its printed key has. */
uint32_t remat_kernel_key_hash(const struct remat_kernel_info *kernel);

/* Writes one kernel at a time into `arena`; `scratch` is emptied after each. */
struct remat_kernel_writer;
struct remat_kernel_writer *remat_kernel_writer_create(struct remat_arena *arena,
                                                       struct remat_arena *scratch);
/* The kernel of nodes in graph order: one built-in node, or several that can be fused. The kernel
 * refers to `nodes`. kernel_of, by node: REMAT_NONE if it is absorbed (analysis.h); NULL: all
 * others are. stored[n]: it writes the result of nodes[n]; NULL for a built-in kernel, which writes
 * all of them. */
struct remat_kernel_info remat_kernel_write(struct remat_kernel_writer *writer,
                                            const struct remat_graph *graph,
                                            const uint32_t *kernel_of, remat_node *nodes,
                                            uint32_t count, const bool *stored);

/* A kernel of `nodes`, a subset of a fused kernel's in graph order. It stores the results that
 * `stored` selects, and loads its nodes' other inputs. */
struct remat_kernel_info remat_kernel_part(struct remat_arena *arena,
                                           const struct remat_graph *graph,
                                           const uint32_t *kernel_of,
                                           const struct remat_kernel_info *whole, remat_node *nodes,
                                           uint32_t count, const bool *stored);

#endif
