/* SPDX-License-Identifier: Apache-2.0 */
#include "arrange.h"

#include "amounts.h"
#include "overlap.h"
#include "schedule.h"

/* Subtracts from the time of transfers what overlaps with computation. */
static void overlap_transfers(struct remat_arena *arena, struct remat_arrangement *a)
{
    struct remat_overlapped overlapped =
        remat_overlap_transfers(arena, a->graph, &a->kernels, a->prices, a->order);
    a->order = overlapped.order;
    a->complete_before = overlapped.complete_before;
    a->continues = overlapped.continues;
    for (uint32_t at = 0; at < a->kernels.count; at++)
        if (overlapped.continues[at])
            a->prices[a->order[at].i].ns -= a->prices[a->order[at].i].latency_ns;
    a->times.ns[remat_cost_class_of(REMAT_KERNEL_exchange)] -= a->step_ns - overlapped.ns;
    a->step_ns = overlapped.ns;
}

void remat_arrange_kernels(struct remat_arena *arena, const struct remat_persistent *persistent,
                           const remat_tensor_id *inputs, bool overlap,
                           struct remat_stopwatch *watch, struct remat_arrangement *a)
{
    assert(a->graph && (!overlap || a->prices));
    a->order = remat_schedule(arena, a->graph, &a->kernels);
    if (overlap)
        overlap_transfers(arena, a);
    remat_stopwatch_lap(watch, REMAT_LAP_SCHEDULE);
    a->lifespans = remat_lifespans(arena, a->graph, &a->kernels, a->order, a->complete_before,
                                   persistent, inputs);
    remat_stopwatch_lap(watch, REMAT_LAP_LIFESPANS);
}

remat_status remat_arrange(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_persistent *persistent,
                           const struct remat_device_description *device,
                           struct remat_stopwatch *watch, bool blocking,
                           struct remat_arrangement *out)
{
    *out = (struct remat_arrangement){.graph = graph};
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        REMAT_PUSH(arena, &out->nodes, n);
    remat_stopwatch_start(watch);
    out->kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    REMAT_NEW(arena, out->prices, out->kernels.count);
    bool transfers = false;
    for (uint32_t k = 0; k < out->kernels.count; k++) {
        const struct remat_kernel_info *kernel = &out->kernels.kernels[k];
        out->prices[k] = remat_price_kernel(graph, kernel, device);
        transfers |= remat_may_join_group(graph, kernel);
        uint64_t *class_ns = &out->times.ns[remat_cost_class_of(kernel->kind)];
        *class_ns = remat_ns_add(*class_ns, out->prices[k].ns);
        out->step_ns = remat_ns_add(out->step_ns, out->prices[k].ns);
        if (!remat_may_overlap(graph, kernel))
            out->least_ns = remat_ns_add(out->least_ns, remat_price_least_ns(&out->prices[k]));
    }
    remat_stopwatch_lap(watch, REMAT_LAP_PRICE);
    remat_arrange_kernels(arena, persistent, remat_persistent_inputs(arena, persistent, graph),
                          !blocking && transfers, watch, out);
    return remat_price_check_list(ctx, graph, &out->kernels, out->prices, device);
}
