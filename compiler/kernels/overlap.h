/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers may be overlapped with computation, and which may start together. */
#ifndef REMAT_OVERLAP_H
#define REMAT_OVERLAP_H

#include "kernel_list.h"

/* True for a transfer that no decision is about: of a gradient, an updated parameter or an output.
 * Blocking are the gather of a parameter that ranks have in parts, and the transfers within
 * layers. */
static inline bool remat_may_overlap(const struct remat_graph *graph,
                                     const struct remat_kernel_info *kernel)
{
    if (!remat_kernel_kind_is_transfer(kernel->kind))
        return false;
    const struct remat_value_info *from = &graph->values[kernel->operands[0].value.i];
    bool within = remat_mesh_divides_layers(&graph->mesh, (uint32_t)kernel->parameters[0]);
    bool gathers_parameter = kernel->kind == REMAT_KERNEL_gather && remat_is_none(from->node.i) &&
                             from->role == REMAT_ROLE_PARAMETER;
    return !within && !gathers_parameter;
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
