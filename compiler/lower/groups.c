/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include "overlap.h"

#include <assert.h>

uint64_t remat_continued_ns(const struct remat_price *price)
{
    assert(price->latency_ns <= price->ns);
    return price->ns - price->latency_ns;
}

uint64_t remat_group_room_ns(const struct remat_price *first)
{
    uint64_t most_ns = REMAT_GROUP_LATENCIES * first->latency_ns, ns = remat_continued_ns(first);
    return most_ns > ns ? most_ns - ns : 0;
}

uint32_t remat_goes_with(const struct remat_graph *graph, const struct remat_kernel_info *transfer)
{
    assert(remat_kernel_kind_is_transfer(transfer->kind));
    const struct remat_kernel_operand *from = &transfer->operands[0];
    int64_t elements = 1;
    for (uint32_t axis = 0; axis < from->view->rank; axis++)
        elements *= from->view->shape[axis];
    if (elements < remat_shape_elements(&graph->values[from->value.i].shape))
        return 0;
    return 1 + 2 * (uint32_t)transfer->parameters[0] + (transfer->kind == REMAT_KERNEL_gather);
}

/* Of a parameter in parts, which is there from the start. */
static bool is_early_gather(const struct remat_graph *graph, const struct remat_kernel_info *kernel)
{
    return kernel->kind == REMAT_KERNEL_gather &&
           remat_is_none(graph->values[kernel->operands[0].value.i].node.i);
}

remat_kernel_id *remat_group_gathers(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_kernel_list *kernels,
                                     const struct remat_price *prices, const remat_kernel_id *order,
                                     remat_kernel_id **out_after)
{
    remat_kernel_id *out, *next, *after, last = REMAT_NO_KERNEL;
    uint32_t count = 0, with = 0; /* what the last one goes with */
    uint64_t left_ns = 0;
    REMAT_NEW(arena, out, kernels->count);
    REMAT_NEW(arena, next, kernels->count);
    REMAT_NEW(arena, after, kernels->count);
    memset(next, 0xff, kernels->count * sizeof *next);
    memset(after, 0xff, kernels->count * sizeof *after);
    for (uint32_t at = 0; at < kernels->count; at++) {
        remat_kernel_id k = order[at];
        const struct remat_kernel_info *kernel = remat_kernel_at(kernels, k);
        uint64_t ns = remat_continued_ns(&prices[k.i]);
        if (!is_early_gather(graph, kernel))
            continue;
        if (!remat_is_none(last.i) && ns < left_ns &&
            remat_kernel_at(kernels, last)->phase == kernel->phase && with &&
            with == remat_goes_with(graph, kernel)) {
            left_ns -= ns;
            after[k.i] = last;
            next[last.i] = k;
        } else {
            left_ns = remat_group_room_ns(&prices[k.i]);
        }
        last = k;
        with = remat_goes_with(graph, kernel);
    }
    for (uint32_t at = 0; at < kernels->count; at++)
        for (remat_kernel_id k = remat_is_none(after[order[at].i].i) ? order[at] : REMAT_NO_KERNEL;
             !remat_is_none(k.i); k = next[k.i])
            out[count++] = k;
    *out_after = after;
    return out;
}
