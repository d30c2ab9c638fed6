/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a priced schedule with lifespans. */
#ifndef REMAT_ARRANGE_H
#define REMAT_ARRANGE_H

#include "place.h"
#include "price.h"
#include "sensitivity.h"
#include "stopwatch.h"

struct remat_arrangement {
    const struct remat_graph *graph;
    struct remat_nodes nodes; /* those that run, in an order in which they can */
    struct remat_kernel_list kernels;
    struct remat_price *prices; /* by kernel */
    remat_kernel_id *order;     /* by position */
    uint32_t *complete_before;  /* by position; NULL: every transfer is blocking */
    bool *continues; /* by position: a transfer in the group of the one before; NULL: none is */
    struct remat_lifespans lifespans;
    uint64_t step_ns;
    uint64_t least_ns; /* the work of one stream, the most, with transfers as in full groups */
    uint32_t depth;    /* of schedule.h; 0 if transfers are blocking */
    struct remat_class_times times; /* step_ns by class */
};

/* Finds order and lifespans, given graph, kernels, depth, step_ns and times with blocking
 * transfers. `overlap`: transfers are overlapped, which needs prices and changes times. `inputs` as
 * for remat_lifespans. */
void remat_arrange_kernels(struct remat_arena *arena, const struct remat_persistent *persistent,
                           const remat_tensor_id *inputs, bool overlap,
                           struct remat_stopwatch *watch, struct remat_arrangement *arrangement);

/* Turns times with blocking transfers into those of a step that takes `ns` with overlapped ones. */
void remat_hide_transfers(struct remat_class_times *times, uint64_t *step_ns, uint64_t ns);

/* Fuses, prices and schedules a whole graph: with overlapped transfers, if it has some that may be,
 * it takes the fastest of the depths whose packed arena is at most limit_bytes. `blocking`, or
 * where none is: no transfer is overlapped. */
remat_status remat_arrange(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_persistent *persistent,
                           const struct remat_device_description *device,
                           struct remat_stopwatch *watch, bool blocking, uint64_t limit_bytes,
                           struct remat_arrangement *out);

#endif
