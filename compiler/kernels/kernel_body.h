/* SPDX-License-Identifier: Apache-2.0 */
/* From the nodes of one kernel to its operands and instructions; used by fuse.c only. */
#ifndef REMAT_KERNEL_BODY_H
#define REMAT_KERNEL_BODY_H

#include "fuse.h"

/* `stored[v]` tells whether value v is read outside its kernel and so must be written. Fills
 * operands, program and parameters of a kernel whose nodes, kind and space are set. */
void remat_program_body(struct remat_arena *arena, const struct remat_graph *graph,
                        const uint8_t *stored, struct remat_fused_kernel *kernel);
void remat_named_body(struct remat_arena *arena, const struct remat_graph *graph,
                      struct remat_fused_kernel *kernel);

/* Fills `shared`. */
void remat_kernel_list_shared(struct remat_arena *arena, const struct remat_graph *graph,
                              struct remat_fused_kernel *kernel);

#endif
