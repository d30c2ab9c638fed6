/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers may be overlapped with computation, how far ahead of it, and which may start
 * together. */
#ifndef REMAT_OVERLAP_H
#define REMAT_OVERLAP_H

#include "kernel_list.h"

/* True for every transfer but those within layers, which are blocking. */
static inline bool remat_may_overlap(const struct remat_graph *graph,
                                     const struct remat_kernel_info *kernel)
{
    return remat_kernel_kind_is_transfer(kernel->kind) &&
           !remat_mesh_divides_layers(&graph->mesh, (uint32_t)kernel->parameters[0]);
}

/* True for an overlapped transfer of what is there from the start, to the rank: the gather of a
 * parameter that ranks have in parts. It may start before what reads its result is near. */
static inline bool remat_may_start_early(const struct remat_graph *graph,
                                         const struct remat_kernel_info *kernel)
{
    return remat_may_overlap(graph, kernel) && kernel->kind == REMAT_KERNEL_gather &&
           remat_is_none(graph->values[kernel->operands[0].value.i].node.i);
}

/* True for an overlapped transfer, and for one of a value that is there from the start. Transfers
 * within layers wait for each other. */
static inline bool remat_may_join_group(const struct remat_graph *graph,
                                        const struct remat_kernel_info *kernel)
{
    return remat_kernel_kind_is_transfer(kernel->kind) &&
           (remat_may_overlap(graph, kernel) ||
            remat_is_none(graph->values[kernel->operands[0].value.i].node.i));
}

#endif
