/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph to a priced and packed schedule. */
#ifndef REMAT_ARRANGE_H
#define REMAT_ARRANGE_H

#include "place.h"
#include "price.h"
#include "sensitivity.h"
#include "stopwatch.h"

struct remat_arrangement {
    const struct remat_graph *graph;
    struct remat_nodes nodes; /* of the graph, that run: in an order in which they can */
    struct remat_kernel_list kernels;
    struct remat_price *prices; /* by kernel */
    remat_kernel_id *order;     /* by position */
    uint32_t *complete_before;  /* by position; NULL: all is in line */
    bool *continues; /* by position: a transfer of the group of the one before; NULL: none is */
    struct remat_lifespans lifespans;
    uint64_t arena_bytes; /* packed */
    uint64_t step_ns;
    uint64_t least_ns; /* without what may run beside computation, gathers as in full groups */
    struct remat_class_times times; /* step_ns by class */
};

/* Order and lifespans, where graph, kernels, step_ns and times are known, the latter with all in
 * line. `beside`: transfers run beside computation, which takes prices and changes times.
 * `inputs` as for remat_lifespans. */
void remat_arrange_kernels(struct remat_arena *arena, const struct remat_persistent *persistent,
                           const remat_tensor_id *inputs, bool beside,
                           struct remat_stopwatch *watch, struct remat_arrangement *arrangement);

/* Fuses, prices, schedules, measures and packs a whole graph. `in_line`: no transfer runs beside
 * computation. */
remat_status remat_arrange(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_persistent *persistent,
                           const struct remat_device_description *device,
                           struct remat_stopwatch *watch, bool in_line,
                           struct remat_arrangement *out);

#endif
