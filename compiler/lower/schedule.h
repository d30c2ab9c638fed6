/* SPDX-License-Identifier: Apache-2.0 */
/* Order of execution of a kernel list, with blocking and with overlapped transfers. */
#ifndef REMAT_SCHEDULE_H
#define REMAT_SCHEDULE_H

#include "price.h"
#include "turn.h"

/* The kernels by position, in the order of turn.h. A kernel depends on producers of what it reads
 * and, where it replaces a version in place, on every other reader of the old version. */
remat_kernel_id *remat_schedule(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels);

/* --- transfers.c --- */

/* Finds what overlapped transfers depend on, whatever their depth, in an order of remat_schedule.
 * `prices`: by kernel, each transfer priced as if it were alone; they outlive the result. */
struct remat_transfers *remat_transfers_find(struct remat_arena *arena,
                                             const struct remat_graph *graph,
                                             const struct remat_kernel_list *kernels,
                                             const struct remat_price *prices,
                                             const remat_kernel_id *order);

/* --- overlap_transfers.c --- */

struct remat_overlapped {
    remat_kernel_id *order;    /* by position: the kernel; NULL: it takes longer than the limit */
    uint32_t *complete_before; /* by position: for a transfer, the first position that may not begin
                                  before it is complete; otherwise the next position */
    bool *continues;           /* by position: a transfer in the group of the one before it */
    bool depth_matters;        /* else any greater depth gives the same */
    uint64_t ns;               /* until both streams are done, at least */
};

/* Reorders them so that transfers overlap with computation. Groups of transfers run one after the
 * other on a stream of their own. All other kernels keep their order, but a kernel that waits for a
 * transfer is overtaken by those that do not. Gathers of parameters start at most `depth` groups
 * before their own is needed. With a depth of 0 at most two groups are in flight, else as many as
 * keep the stream busy. A transfer that would delay the next blocking one by nearly all its own
 * time starts after it. Ends early once it is sure to take more than limit_ns. */
struct remat_overlapped remat_overlap_transfers(struct remat_arena *arena,
                                                const struct remat_transfers *transfers,
                                                uint32_t depth, uint64_t limit_ns);

/* --- depths.c --- */

/* The depths that a search tries for these kernels, each larger than the one before. None: there is
 * no transfer that may be overlapped. Which they are depends on no budget and no decision. */
enum { REMAT_DEPTHS_MAX = 6 };
struct remat_depths {
    const uint8_t *items;
    uint32_t count;
};
struct remat_depths remat_depths_of(const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels);

/* --- groups.c: transfers that are started at once and pay the link's latency once --- */

/* Time of a transfer that is not the first of its group. */
uint64_t remat_continued_ns(const struct remat_price *price);
/* Time that all further transfers of the group together must stay below. */
uint64_t remat_group_room_ns(const struct remat_price *first);
/* Equal for transfers that may be in one group: they have one kind and one axis. 0 for a piece of a
 * tensor, which goes alone: pieces exist so that the tensor is not received at once. */
uint32_t remat_goes_with(const struct remat_graph *graph, const struct remat_kernel_info *transfer);

/* Moves each gather of a parameter, which waits for nothing, up to the first of its group, all of
 * one phase. (*out_after)[k]: the kernel that kernel k follows in a group, or none. */
remat_kernel_id *remat_group_gathers(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_kernel_list *kernels,
                                     const struct remat_price *prices, const remat_kernel_id *order,
                                     remat_kernel_id **out_after);

#endif
