/* SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

#include "amounts.h"
#include "beside.h"
#include "schedule.h"

/* `made_from`: whose decision made the graph, or NULL. */
static struct remat_price *price_list(struct remat_arena *arena, const struct remat_graph *graph,
                                      const struct remat_kernel_list *kernels,
                                      const struct remat_evaluator *made_from,
                                      const struct remat_device_description *device)
{
    struct remat_price *prices;
    REMAT_NEW(arena, prices, kernels->count);
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k];
        remat_site site = graph->nodes[kernel->nodes[0].i].site;
        if (!made_from || remat_is_none(site.i)) {
            prices[k] = remat_price_kernel(graph, kernel, device);
            continue;
        }
        remat_kernel_id whole = remat_site_kernel(made_from->settled, site);
        prices[k] = remat_price_variant(graph, kernel, &made_from->prices[whole.i], device);
    }
    return prices;
}

/* Of transfers, what runs beside computation and takes a step no longer. */
static void hide(struct remat_class_times *times, uint64_t hidden_ns)
{
    times->ns[remat_cost_class_of(REMAT_KERNEL_exchange)] -= hidden_ns;
}

/* --- a whole graph --- */

remat_status
remat_arrange(remat_context *ctx, struct remat_arena *arena, const struct remat_graph *graph,
              const struct remat_persistent *persistent, const struct remat_evaluator *made_from,
              const struct remat_device_description *device, struct remat_stopwatch *watch,
              bool in_line, struct remat_arrangement *out)
{
    *out = (struct remat_arrangement){.graph = graph};
    remat_stopwatch_start(watch);
    out->kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    out->prices = price_list(arena, graph, &out->kernels, made_from, device);
    bool transfers = false;
    for (uint32_t k = 0; k < out->kernels.count; k++) {
        const struct remat_fused_kernel *kernel = &out->kernels.kernels[k];
        transfers |= remat_may_join_group(graph, kernel);
        uint64_t *class_ns = &out->times.ns[remat_cost_class_of(kernel->kind)];
        *class_ns = remat_ns_add(*class_ns, out->prices[k].ns);
        out->step_ns = remat_ns_add(out->step_ns, out->prices[k].ns);
        if (!remat_runs_beside(graph, kernel))
            out->least_ns = remat_ns_add(out->least_ns, remat_price_least_ns(&out->prices[k]));
    }
    remat_stopwatch_lap(watch, REMAT_LAP_PRICE);
    out->order = remat_schedule(arena, graph, &out->kernels);
    if (!in_line && transfers) {
        struct remat_beside beside =
            remat_run_beside(arena, graph, &out->kernels, out->prices, out->order);
        out->order = beside.order;
        out->complete_before = beside.complete_before;
        out->continues = beside.continues;
        for (uint32_t at = 0; at < out->kernels.count; at++)
            if (beside.continues[at])
                out->prices[out->order[at].i].ns -= out->prices[out->order[at].i].latency_ns;
        hide(&out->times, out->step_ns - beside.ns);
        out->step_ns = beside.ns;
    }
    remat_stopwatch_lap(watch, REMAT_LAP_SCHEDULE);
    const remat_tensor_id *inputs = remat_persistent_inputs(arena, persistent, graph);
    out->lifespans = remat_lifespans(arena, graph, &out->kernels, out->order, out->complete_before,
                                     persistent, inputs);
    remat_stopwatch_lap(watch, REMAT_LAP_LIFESPANS);
    REMAT_CHECK(remat_price_check_list(ctx, graph, &out->kernels, out->prices, device));
    remat_stopwatch_start(watch);
    REMAT_CHECK(remat_place(ctx, arena, persistent, &out->lifespans, &out->arena_bytes));
    remat_stopwatch_lap(watch, REMAT_LAP_PLACE);
    return REMAT_OK;
}

/* --- decisions --- */

static void init(struct remat_evaluator *e, struct remat_arena *arena, uint32_t rounds)
{
    e->known = remat_scratch_open(arena->ctx);
    e->memo = (struct remat_kernel_memo){0};
    remat_clones_create(arena, e->settled, rounds, &e->clones);
    e->facts = remat_fuse_facts_create(arena, e->clones.graph);
    /* The kernels of the tail are those of the graph that saves everything. */
    e->tail = *e->settled->kernels;
    e->tail.count -= e->clones.tail_kernel;
    e->tail.kernels += e->clones.tail_kernel;
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
    *e = (struct remat_evaluator){.persistent = persistent, .device = device, .watch = watch};
    e->scratch = remat_scratch_open(arena->ctx);
    REMAT_NEW(arena, kernels, 1);
    REMAT_NEW(arena, settled, 1);
    e->settled = settled;
    remat_stopwatch_start(watch);
    *kernels = remat_fuse(arena, graph);
    remat_stopwatch_lap(watch, REMAT_LAP_FUSE);
    remat_settle(arena, graph, kernels, device, pinned, settled);
    e->prices = price_list(arena, graph, kernels, NULL, device);
    for (uint32_t k = 0; k < kernels->count; k++) {
        e->base_ns = remat_ns_add(e->base_ns, e->prices[k].ns);
        e->transfers |= remat_may_join_group(graph, &kernels->kernels[k]);
        if (remat_runs_beside(graph, &kernels->kernels[k]))
            e->beside_ns = remat_ns_add(e->beside_ns, e->prices[k].ns);
    }
    REMAT_NEW(arena, e->sums, 1);
    *e->sums = remat_times_create(arena, settled, e->prices, device);
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
    e->memo = (struct remat_kernel_memo){0};
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

struct remat_kernel_list remat_evaluator_kernels(struct remat_evaluator *e,
                                                 struct remat_arena *arena,
                                                 const struct remat_decision *decision)
{
    struct remat_clones *c = &e->clones;
    if (!e->memo.first)
        remat_kernel_memo_init(&e->memo, e->known, c->graph);
    remat_stopwatch_start(e->watch);
    struct remat_nodes nodes = remat_clones_choose(c, arena, decision, c->tail);
    struct remat_sequence sequence = {(uint32_t)nodes.count, nodes.items, &e->tail, &e->memo,
                                      &e->facts};
    remat_stopwatch_lap(e->watch, REMAT_LAP_CLONE);
    struct remat_kernel_list kernels = remat_fuse_sequence(arena, arena, c->graph, &sequence);
    remat_stopwatch_lap(e->watch, REMAT_LAP_FUSE);
    return kernels;
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
    struct remat_kernel_list kernels = remat_evaluator_kernels(e, e->scratch, decision);
    struct remat_evaluation cost = add_up(e, decision);
    if (!cost.step_ns) {
        remat_times_learn(e->sums, graph, &kernels);
        cost = add_up(e, decision);
    }
    struct remat_beside run = {.order = remat_schedule(e->scratch, graph, &kernels)};
    if (e->transfers && !decision->in_line) {
        const struct remat_price *prices = price_list(e->scratch, graph, &kernels, e, e->device);
        run = remat_run_beside(e->scratch, graph, &kernels, prices, run.order);
        hide(&cost.times, cost.step_ns - run.ns);
        cost.step_ns = run.ns;
    }
    remat_stopwatch_lap(e->watch, REMAT_LAP_SCHEDULE);
    struct remat_lifespans lifespans = remat_lifespans(
        e->scratch, graph, &kernels, run.order, run.complete_before, e->persistent, e->inputs);
    remat_stopwatch_lap(e->watch, REMAT_LAP_LIFESPANS);
    cost.live_peak_bytes = lifespans.live_peak_bytes;
    if (cost.live_peak_bytes <= limit_bytes) {
        cost.arena_bytes = remat_packed_bytes(e->scratch, e->persistent, &lifespans);
        remat_stopwatch_lap(e->watch, REMAT_LAP_PLACE);
    }
    remat_arena_reset(e->scratch);
    return cost;
}
