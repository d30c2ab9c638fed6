/* SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

#include "amounts.h"
#include "overlap.h"

void remat_evaluator_init(struct remat_evaluator *e, struct remat_arena *arena,
                          const struct remat_graph *graph,
                          const struct remat_persistent *persistent,
                          const struct remat_device_description *device,
                          const struct remat_decision *pinned, struct remat_stopwatch *watch)
{
    struct remat_kernel_list *kernels;
    struct remat_settled *settled;
    struct remat_price *prices;
    *e = (struct remat_evaluator){.persistent = persistent, .device = device, .watch = watch};
    e->known = remat_scratch_open(arena->ctx);
    e->body = remat_scratch_open(arena->ctx);
    e->scratch = remat_scratch_open(arena->ctx);
    REMAT_NEW(arena, kernels, 1);
    REMAT_NEW(arena, settled, 1);
    e->settled = settled;
    remat_stopwatch_start(watch);
    *kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    remat_settle(arena, graph, kernels, device, pinned, settled);
    REMAT_NEW(arena, prices, kernels->count);
    e->prices = prices;
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_kernel_info *kernel = &kernels->kernels[k];
        prices[k] = remat_price_kernel(graph, kernel, device);
        e->base_ns = remat_ns_add(e->base_ns, prices[k].ns);
        if (remat_may_overlap(graph, kernel))
            e->overlapped_ns = remat_ns_add(e->overlapped_ns, prices[k].ns);
    }
    e->depths = remat_depths_of(graph, kernels);
    REMAT_NEW(arena, e->sums, 1);
    *e->sums = remat_times_create(arena, settled, prices);
    remat_clones_create(arena, settled, &e->clones);
    e->inputs = remat_persistent_inputs(arena, persistent, e->clones.graph);
    remat_stopwatch_lap(watch, REMAT_LAP_CLONE);
    struct remat_decision none;
    remat_decision_create(arena, graph->value_count, &none);
    struct remat_evaluation runs[REMAT_DEPTHS_MAX];
    uint32_t run_count = e->depths.count ? remat_evaluate_depths(e, &none, UINT64_MAX, runs) : 0;
    for (uint32_t i = 0; i < run_count; i++)
        e->base_ns = i == 0 || runs[i].step_ns < e->base_ns ? runs[i].step_ns : e->base_ns;
}

void remat_evaluator_forget(struct remat_evaluator *e)
{
    remat_arena_release(e->scratch);
    remat_arena_release(e->body);
    remat_arena_release(e->known);
    e->variants = NULL;
    memset(&e->timed, 0, sizeof e->timed);
    memset(&e->timed_by_effect, 0, sizeof e->timed_by_effect);
}

void remat_evaluator_release(struct remat_evaluator *e)
{
    remat_scratch_close(e->known);
    remat_scratch_close(e->body);
    remat_scratch_close(e->scratch);
}

/* Step time with blocking transfers. */
static struct remat_evaluation add_up(struct remat_evaluator *e,
                                      const struct remat_decision *decision)
{
    remat_stopwatch_start(e->watch);
    if (!e->variants)
        e->variants = remat_variants_create(e->known, e->body, &e->clones, e->prices, e->device);
    struct remat_times_sum sum = remat_times_find(e->sums, e->variants, decision);
    struct remat_evaluation cost = {.arena_bytes = UINT64_MAX,
                                    .times = sum.times,
                                    .transfers_ns = sum.transfers_ns,
                                    .effect = sum.effect};
    for (uint32_t c = 0; c < REMAT_COST_CLASSES; c++)
        cost.step_ns = remat_ns_add(cost.step_ns, sum.times.ns[c]);
    remat_stopwatch_lap(e->watch, REMAT_LAP_PRICE);
    return cost;
}

struct remat_evaluation remat_evaluate_computation(struct remat_evaluator *e,
                                                   const struct remat_decision *decision)
{
    struct remat_evaluation cost = add_up(e, decision);
    remat_hide_transfers(&cost.times, &cost.step_ns, cost.step_ns - cost.transfers_ns);
    return cost;
}

/* On the clones' graph, which no decision changes: kernels name the values that they read. */
static struct remat_arrangement arrange(struct remat_evaluator *e, struct remat_arena *arena,
                                        const struct remat_decision *decision,
                                        const struct remat_evaluation *cost)
{
    struct remat_arrangement run = {.graph = e->clones.graph,
                                    .depth = decision->depth,
                                    .step_ns = cost->step_ns,
                                    .times = cost->times};
    run.kernels = remat_times_list(e->sums, e->variants, arena, decision, &run.prices);
    remat_stopwatch_lap(e->watch, REMAT_LAP_FUSE);
    bool overlap = e->depths.count && !decision->blocking;
    remat_arrange_kernels(arena, e->persistent, e->inputs, overlap, e->watch, &run);
    return run;
}

/* Times at `count` depths, in `out`; how many of them differ. `cost`: of the decision, which was
 * added up last, with blocking transfers. */
static uint32_t time_depths(struct remat_evaluator *e, const struct remat_decision *decision,
                            const struct remat_evaluation *cost, const uint8_t *depths,
                            uint32_t count, uint64_t limit_ns, struct remat_evaluation *out)
{
    const struct remat_graph *graph = e->clones.graph;
    uint32_t found = 0;
    struct remat_price *prices;
    struct remat_kernel_list kernels =
        remat_times_list(e->sums, e->variants, e->scratch, decision, &prices);
    remat_stopwatch_lap(e->watch, REMAT_LAP_FUSE);
    remat_kernel_id *order = remat_schedule(e->scratch, graph, &kernels);
    const struct remat_transfers *transfers =
        remat_transfers_find(e->scratch, graph, &kernels, prices, order);
    for (bool differs = true; differs && found < count; found++) {
        struct remat_overlapped run =
            remat_overlap_transfers(e->scratch, transfers, depths[found], limit_ns);
        out[found] = *cost;
        remat_hide_transfers(&out[found].times, &out[found].step_ns, run.ns);
        differs = run.depth_matters;
    }
    remat_stopwatch_lap(e->watch, REMAT_LAP_SCHEDULE);
    remat_arena_reset(e->scratch);
    return found;
}

/* What was found for a decision with the same kernels, and no smaller limit. NULL: nothing. */
static const struct remat_timed_depths *find_timed(const struct remat_evaluator *e, uint64_t effect,
                                                   uint64_t limit_ns)
{
    uint32_t i;
    for (size_t at = 0; (i = remat_index_find(&e->timed_by_effect, effect, &at)) != REMAT_NONE;)
        if (e->timed.items[i].effect == effect && e->timed.items[i].limit_ns >= limit_ns)
            return &e->timed.items[i];
    return NULL;
}

uint32_t remat_evaluate_depths(struct remat_evaluator *e, const struct remat_decision *decision,
                               uint64_t limit_ns, struct remat_evaluation *out)
{
    const struct remat_evaluation cost = add_up(e, decision);
    const struct remat_timed_depths *timed = find_timed(e, cost.effect, limit_ns);
    if (timed) {
        memcpy(out, timed->costs, timed->count * sizeof *out);
        return timed->count;
    }
    struct remat_timed_depths found = {.effect = cost.effect, .limit_ns = limit_ns};
    found.count = time_depths(e, decision, &cost, e->depths.items, e->depths.count, limit_ns, out);
    found.costs = remat_copy(e->known, out, found.count, sizeof *out);
    remat_index_add(e->known, &e->timed_by_effect, cost.effect, (uint32_t)e->timed.count);
    REMAT_PUSH(e->known, &e->timed, found);
    return found.count;
}

struct remat_evaluation remat_evaluate_time(struct remat_evaluator *e,
                                            const struct remat_decision *decision)
{
    const struct remat_evaluation cost = add_up(e, decision);
    struct remat_evaluation out = cost;
    if (e->depths.count && !decision->blocking)
        time_depths(e, decision, &cost, &decision->depth, 1, UINT64_MAX, &out);
    return out;
}

struct remat_evaluation remat_evaluate(struct remat_evaluator *e,
                                       const struct remat_decision *decision, uint64_t limit_bytes)
{
    assert(decision->value_count == e->settled->graph->value_count);
    struct remat_evaluation cost = add_up(e, decision);
    struct remat_arrangement run = arrange(e, e->scratch, decision, &cost);
    cost.step_ns = run.step_ns;
    cost.times = run.times;
    cost.live_peak_bytes = run.lifespans.live_peak_bytes;
    if (cost.live_peak_bytes <= limit_bytes) {
        cost.arena_bytes = remat_packed_bytes(e->scratch->ctx, e->persistent, &run.lifespans);
        remat_stopwatch_lap(e->watch, REMAT_LAP_PLACE);
    }
    remat_arena_reset(e->scratch);
    return cost;
}

struct remat_arrangement remat_evaluator_arrange(struct remat_evaluator *e,
                                                 struct remat_arena *arena,
                                                 const struct remat_decision *decision)
{
    assert(decision->value_count == e->settled->graph->value_count);
    struct remat_evaluation cost = add_up(e, decision);
    struct remat_arrangement out = arrange(e, arena, decision, &cost);
    out.graph = remat_wire(arena, &e->clones, decision, &out.kernels, &out.nodes);
    remat_stopwatch_lap(e->watch, REMAT_LAP_CLONE);
    return out;
}
