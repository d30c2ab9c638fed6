/* SPDX-License-Identifier: Apache-2.0 */
#include "arrange.h"

#include "amounts.h"
#include "overlap.h"
#include "schedule.h"

void remat_hide_transfers(struct remat_class_times *times, uint64_t *step_ns, uint64_t ns)
{
    times->ns[remat_cost_class_of(REMAT_KERNEL_exchange)] -= *step_ns - ns;
    *step_ns = ns;
}

/* Subtracts from the time of transfers what overlaps with computation. */
static void overlap_transfers(struct remat_arena *arena, struct remat_arrangement *a)
{
    const struct remat_transfers *transfers =
        remat_transfers_find(arena, a->graph, &a->kernels, a->prices, a->order);
    struct remat_overlapped overlapped =
        remat_overlap_transfers(arena, transfers, a->depth, UINT64_MAX);
    a->order = overlapped.order;
    a->complete_before = overlapped.complete_before;
    a->continues = overlapped.continues;
    for (uint32_t at = 0; at < a->kernels.count; at++)
        if (overlapped.continues[at])
            a->prices[a->order[at].i].ns -= a->prices[a->order[at].i].latency_ns;
    remat_hide_transfers(&a->times, &a->step_ns, overlapped.ns);
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

/* The kernels of a whole graph in order, whatever transfers do. */
static struct remat_arrangement form(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_device_description *device,
                                     struct remat_stopwatch *watch)
{
    struct remat_arrangement out = {.graph = graph};
    uint64_t work_ns[REMAT_STREAMS] = {0}; /* by stream */
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        REMAT_PUSH(arena, &out.nodes, n);
    remat_stopwatch_start(watch);
    out.kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    REMAT_NEW(arena, out.prices, out.kernels.count);
    for (uint32_t k = 0; k < out.kernels.count; k++) {
        const struct remat_kernel_info *kernel = &out.kernels.kernels[k];
        out.prices[k] = remat_price_kernel(graph, kernel, device);
        uint64_t *class_ns = &out.times.ns[remat_cost_class_of(kernel->kind)];
        *class_ns = remat_ns_add(*class_ns, out.prices[k].ns);
        out.step_ns = remat_ns_add(out.step_ns, out.prices[k].ns);
        for (uint32_t s = 0; s < REMAT_STREAMS; s++)
            if (remat_streams_occupied(graph, kernel) >> s & 1)
                work_ns[s] = remat_ns_add(work_ns[s], remat_price_least_ns(&out.prices[k]));
    }
    for (uint32_t s = 0; s < REMAT_STREAMS; s++)
        remat_keep_most(&out.least_ns, work_ns[s]);
    remat_stopwatch_lap(watch, REMAT_LAP_PRICE);
    return out;
}

remat_status remat_arrange(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_persistent *persistent,
                           const struct remat_device_description *device,
                           struct remat_stopwatch *watch, bool blocking, uint64_t limit_bytes,
                           struct remat_arrangement *out)
{
    const struct remat_arrangement formed = form(arena, graph, device, watch);
    const remat_tensor_id *inputs = remat_persistent_inputs(arena, persistent, graph);
    struct remat_depths depths = {0};
    if (!blocking)
        depths = remat_depths_of(graph, &formed.kernels);
    *out = formed;
    remat_arrange_kernels(arena, persistent, inputs, false, watch, out);
    for (uint32_t i = 0; i < depths.count; i++) {
        struct remat_arrangement deeper = formed;
        deeper.depth = depths.items[i];
        deeper.prices =
            remat_copy(arena, formed.prices, formed.kernels.count, sizeof *formed.prices);
        remat_arrange_kernels(arena, persistent, inputs, true, watch, &deeper);
        if ((i == 0 || deeper.step_ns < out->step_ns) &&
            remat_packed_bytes(ctx, persistent, &deeper.lifespans) <= limit_bytes)
            *out = deeper;
    }
    return remat_price_check_list(ctx, graph, &out->kernels, out->prices, device);
}
