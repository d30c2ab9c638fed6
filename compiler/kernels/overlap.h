/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers may be overlapped with computation, how far ahead of it, and which may start
 * together; the streams that a kernel occupies, as bounds count them. */
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

/* The streams of computation, and of the link along each axis of the mesh. */
enum {
    REMAT_STREAM_COMPUTATION,
    REMAT_STREAM_LINKS,
    REMAT_STREAMS = REMAT_STREAM_LINKS + REMAT_MESH_AXES_MAX
};

/* The streams that do nothing else while the kernel runs, by bit. Blocking transfers occupy
 * computation, too: in no plan are they overlapped. */
static inline uint32_t remat_streams_occupied(const struct remat_graph *graph,
                                              const struct remat_kernel_info *kernel)
{
    if (!remat_kernel_kind_is_transfer(kernel->kind))
        return 1u << REMAT_STREAM_COMPUTATION;
    uint32_t link = 1u << (REMAT_STREAM_LINKS + (uint32_t)kernel->parameters[0]);
    return remat_may_overlap(graph, kernel) ? link : link | 1u << REMAT_STREAM_COMPUTATION;
}

/* True for a transfer whose readers, and theirs, may be overtaken by kernels that follow them in
 * the order of the graph. Who reads what is brought early waits in its place. */
static inline bool remat_delays_readers(const struct remat_graph *graph,
                                        const struct remat_kernel_info *kernel)
{
    return remat_may_overlap(graph, kernel) && !remat_may_start_early(graph, kernel);
}

#endif
