/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of transfers, which are started at once and pay the link's latency once. */
#ifndef REMAT_GROUPS_H
#define REMAT_GROUPS_H

#include "price.h"

/* Of a transfer behind the first of its group. */
uint64_t remat_continued_ns(const struct remat_price *price);
/* Transfers that follow a group's first take less than so long together. */
uint64_t remat_group_room_ns(const struct remat_price *first);
/* A piece of a tensor: that is there so that a tensor is not received at once. */
bool remat_goes_alone(const struct remat_graph *graph, const struct remat_fused_kernel *transfer);
/* Whether `next` may follow `last` in a group: one kind along one axis, neither goes alone. */
bool remat_go_together(const struct remat_graph *graph, const struct remat_fused_kernel *last,
                       const struct remat_fused_kernel *next);

/* The order with gathers in line (those of parameters, which wait for nothing) brought together: up
 * to the first of their group, which is of one phase. (*out_after)[k]: the kernel that kernel k
 * follows in a group, or none. */
remat_kernel_id *remat_group_gathers(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_kernel_list *kernels,
                                     const struct remat_price *prices, const remat_kernel_id *order,
                                     remat_kernel_id **out_after);

#endif
