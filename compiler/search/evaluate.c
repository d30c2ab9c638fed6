/* SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

#include "amounts.h"

static void begin_memo(struct remat_evaluator *e)
{
    e->memo = (struct remat_kernel_memo){0};
    memset(&e->priced, 0, sizeof e->priced);
}

static void init(struct remat_evaluator *e, struct remat_arena *arena, uint32_t rounds)
{
    e->known = remat_scratch_open(arena->ctx);
    begin_memo(e);
    remat_clones_create(arena, e->settled, rounds, &e->clones);
    e->facts = remat_fuse_facts_create(arena, e->clones.graph);
    /* The kernels of the tail are those of the graph that saves everything. */
    e->tail = *e->settled->kernels;
    e->tail.count -= e->clones.tail_kernel.i;
    e->tail.kernels += e->clones.tail_kernel.i;
    e->inputs = remat_persistent_inputs(arena, e->persistent, e->clones.graph);
}

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
    e->scratch = remat_scratch_open(arena->ctx);
    REMAT_NEW(arena, kernels, 1);
    REMAT_NEW(arena, settled, 1);
    e->settled = settled;
    remat_stopwatch_start(watch);
    *kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    remat_settle(arena, graph, kernels, device, pinned, settled);
    prices = remat_price_list(arena, graph, kernels, NULL, device);
    e->prices = (struct remat_saved_prices){prices, kernels->count};
    for (uint32_t k = 0; k < kernels->count; k++) {
        e->base_ns = remat_ns_add(e->base_ns, prices[k].ns);
        e->transfers |= remat_may_join_group(graph, &kernels->kernels[k]);
        if (remat_runs_beside(graph, &kernels->kernels[k]))
            e->beside_ns = remat_ns_add(e->beside_ns, prices[k].ns);
    }
    REMAT_NEW(arena, e->sums, 1);
    *e->sums = remat_times_create(arena, settled, prices, device);
    init(e, arena, 1);
    remat_stopwatch_lap(watch, REMAT_LAP_CLONE);
    if (e->transfers) {
        struct remat_decision none;
        remat_decision_create(arena, graph->value_count, &none);
        e->base_ns = remat_evaluate(e, &none, 0).step_ns;
    }
}

void remat_evaluator_forget(struct remat_evaluator *e)
{
    if (e->two_level)
        remat_evaluator_forget(e->two_level);
    remat_arena_release(e->scratch);
    remat_arena_release(e->known);
    begin_memo(e);
}

void remat_evaluator_release_two_level(struct remat_evaluator *e)
{
    if (e->two_level) {
        remat_scratch_close(e->two_level->known);
        remat_scratch_close(e->two_level->tables);
    }
    e->two_level = NULL;
}

void remat_evaluator_release(struct remat_evaluator *e)
{
    remat_evaluator_release_two_level(e);
    remat_scratch_close(e->known);
    remat_scratch_close(e->scratch);
}

struct remat_evaluator *remat_evaluator_for(struct remat_evaluator *e,
                                            const struct remat_decision *decision)
{
    if (remat_decision_rounds(decision) <= e->clones.rounds)
        return e;
    if (!e->two_level) {
        remat_evaluator_forget(e); /* both are much in a large graph */
        e->two_level = remat_copy(e->sums->arena, e, 1, sizeof *e);
        e->two_level->tables = remat_scratch_open(e->scratch->ctx);
        init(e->two_level, e->two_level->tables, REMAT_ROUNDS_MAX);
    }
    return e->two_level;
}

/* Of a decision, on the nodes of the clones' graph. */
static struct remat_kernel_list form_kernels(struct remat_evaluator *e,
                                             const struct remat_decision *decision)
{
    struct remat_clones *c = &e->clones;
    if (!e->memo.first)
        remat_kernel_memo_init(&e->memo, e->known, c->graph);
    remat_stopwatch_start(e->watch);
    struct remat_nodes nodes = remat_clones_choose(c, e->scratch, decision, c->tail);
    struct remat_sequence sequence = {(uint32_t)nodes.count, nodes.items, &e->tail, &e->memo,
                                      &e->facts};
    remat_stopwatch_lap(e->watch, REMAT_LAP_CLONE);
    struct remat_kernel_list kernels =
        remat_fuse_sequence(e->scratch, e->scratch, c->graph, &sequence);
    remat_stopwatch_lap(e->watch, REMAT_LAP_FUSE);
    return kernels;
}

/* Of the kernels above: those of the memo are priced once, and the tail's are known. */
static struct remat_price *price_kernels(struct remat_evaluator *e,
                                         const struct remat_kernel_list *kernels)
{
    struct remat_price *prices;
    uint32_t decided = kernels->count - e->tail.count;
    REMAT_ROOM(e->scratch, prices, kernels->count);
    while (e->priced.count <= e->memo.count)
        REMAT_PUSH(e->known, &e->priced, (struct remat_price){0});
    for (uint32_t k = 0; k < decided; k++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k];
        struct remat_price *price = &e->priced.items[kernel->number];
        if (!kernel->number || !price->ns)
            *price = remat_price_made(e->clones.graph, kernel, &e->prices, e->device);
        prices[k] = *price;
    }
    memcpy(prices + decided, e->prices.items + e->clones.tail_kernel.i,
           e->tail.count * sizeof *prices);
    return prices;
}

/* The time with all in line. */
static struct remat_evaluation add_up(struct remat_evaluator *e,
                                      const struct remat_decision *decision)
{
    remat_stopwatch_start(e->watch);
    struct remat_times_sum sum = remat_times_find(e->sums, decision, e->clones.rounds);
    struct remat_evaluation cost = {
        .arena_bytes = UINT64_MAX, .times = sum.times, .effect = sum.effect};
    for (uint32_t c = 0; sum.known && c < REMAT_COST_CLASSES; c++)
        cost.step_ns = remat_ns_add(cost.step_ns, sum.times.ns[c]);
    remat_stopwatch_lap(e->watch, REMAT_LAP_PRICE);
    return cost;
}

struct remat_evaluation remat_evaluate_time(struct remat_evaluator *e,
                                            const struct remat_decision *decision)
{
    struct remat_evaluation cost = add_up(remat_evaluator_for(e, decision), decision);
    if (e->transfers && !decision->in_line)
        cost.step_ns = 0;
    return cost;
}

struct remat_evaluation remat_evaluate(struct remat_evaluator *e,
                                       const struct remat_decision *decision, uint64_t limit_bytes)
{
    e = remat_evaluator_for(e, decision);
    const struct remat_graph *graph = e->clones.graph;
    struct remat_kernel_list kernels = form_kernels(e, decision);
    struct remat_evaluation cost = add_up(e, decision);
    if (!cost.step_ns) {
        remat_times_learn(e->sums, graph, &kernels);
        cost = add_up(e, decision);
    }
    struct remat_arrangement run = {
        .graph = graph, .kernels = kernels, .step_ns = cost.step_ns, .times = cost.times};
    bool beside = e->transfers && !decision->in_line;
    if (beside)
        run.prices = price_kernels(e, &kernels);
    remat_arrange_kernels(e->scratch, e->persistent, e->inputs, beside, e->watch, &run);
    cost.step_ns = run.step_ns;
    cost.times = run.times;
    cost.live_peak_bytes = run.lifespans.live_peak_bytes;
    if (cost.live_peak_bytes <= limit_bytes) {
        cost.arena_bytes = remat_packed_bytes(e->scratch, e->persistent, &run.lifespans);
        remat_stopwatch_lap(e->watch, REMAT_LAP_PLACE);
    }
    remat_arena_reset(e->scratch);
    return cost;
}
