/* SPDX-License-Identifier: Apache-2.0 */
/* A source is where data enter the network: a graph input of floating point, or the first that is
 * made of data and parameters. Its way to the exit goes through bottlenecks, by the
 * post-dominators; masks, tables and the output of an encoder, which all layers read, lead to some
 * place behind the last of them, so their own ways have no bottlenecks between layers, and they
 * hide none. Runs that repeat with some period are looked for among the hashes of the spans.
 *
 * Of all sources the one whose stacks have most nodes comes first, then of what is left. One source
 * takes O(inputs of all nodes), and one search for a run O(bottlenecks log^2 bottlenecks). */
#include "stacks.h"

#include "spans.h"

#define BASE UINT64_C(0x9e3779b97f4a7c15)

struct finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const bool *written;
    struct remat_post_dominators tree;
    struct remat_spans way; /* of the source that was followed last */
    struct sum {
        uint64_t hash, power;
        uint32_t nodes, products;
    } * sums; /* by span of the way: of those before it */
    uint32_t source;
    bool *flows; /* by value in the tree */
    struct remat_stacks *out;
    struct run_list {
        struct run {
            uint32_t begin, period, length, nodes;
        } * items;
        size_t count, capacity;
    } runs; /* on the way */
    struct {
        struct remat_stack *items;
        size_t count, capacity;
    } stacks;
};

static const struct remat_node_info *node_at(const struct finder *f, uint32_t n)
{
    return &f->graph->nodes[n];
}

/* --- sources --- */

static bool is_float(const struct remat_value_info *value)
{
    return value->dtype != REMAT_I32;
}

static void find_flow(struct finder *f)
{
    const struct remat_graph *g = f->graph;
    bool *data, *parameter; /* by value: depends on some */
    REMAT_NEW(f->arena, f->flows, g->value_count);
    REMAT_NEW(f->arena, data, g->value_count);
    REMAT_NEW(f->arena, parameter, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        data[v] = g->values[v].role == REMAT_ROLE_INPUT && remat_is_none(g->values[v].node);
        parameter[v] = g->values[v].role == REMAT_ROLE_PARAMETER;
        f->flows[v] = data[v] && is_float(&g->values[v]);
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t v = node_at(f, n)->outputs[0].i;
        for (uint32_t i = 0; i < node_at(f, n)->input_count; i++) {
            uint32_t from = remat_representative(g, node_at(f, n)->inputs[i].i);
            data[v] |= data[from];
            parameter[v] |= parameter[from];
            f->flows[v] |= f->flows[from];
        }
        f->flows[v] |= data[v] && parameter[v];
    }
}

/* What enters a stack that is known leads to no other one. */
static bool is_source(const struct finder *f, uint32_t v)
{
    uint32_t node = f->graph->values[v].node, next = f->tree.next[v];
    if (!f->flows[v] || remat_is_none(next) ||
        !remat_is_none(f->out->stack_of[f->graph->values[next].node]))
        return false;
    if (remat_is_none(node))
        return true;
    for (uint32_t i = 0; i < node_at(f, node)->input_count; i++)
        if (f->flows[remat_representative(f->graph, node_at(f, node)->inputs[i].i)])
            return false;
    return remat_is_none(f->out->stack_of[node]);
}

/* --- runs --- */

/* Nothing is the same as this span. */
static void set_apart(struct finder *f, uint32_t s)
{
    f->way.items[s].hash = s;
}

/* What spans before each one have together, and hashes of them as one number to the base BASE. */
static void sum_up(struct finder *f)
{
    f->sums[0] = (struct sum){.power = 1};
    for (uint32_t i = 0; i < f->way.count; i++) {
        const struct remat_span *span = &f->way.items[i];
        const struct sum *sum = &f->sums[i];
        f->sums[i + 1] = (struct sum){.hash = sum->hash * BASE + span->hash,
                                      .power = sum->power * BASE,
                                      .nodes = sum->nodes + span->nodes,
                                      .products = sum->products + span->product};
    }
}

/* The spans [a, a + length) and [b, b + length). */
static bool same_hashes(const struct finder *f, uint32_t a, uint32_t b, uint32_t length)
{
    const struct sum *s = f->sums;
    return s[a + length].hash - s[a].hash * s[length].power ==
           s[b + length].hash - s[b].hash * s[length].power;
}

/* How many spans from a on, or before it, are those from b on, or before it; at most `most`. */
static uint32_t count_same(const struct finder *f, uint32_t a, uint32_t b, uint32_t most,
                           bool before)
{
    uint32_t same = 0, step = 1;
    for (bool grows = true; step > 0; step = grows ? 2 * step : step / 2) {
        bool fits = step <= most - same;
        uint32_t back = before ? same + step : 0, on = before ? 0 : same;
        if (fits && same_hashes(f, a - back + on, b - back + on, step))
            same += step;
        else
            grows = false;
    }
    return same;
}

/* The run with the most nodes that has a product. One with a period has a
 * span at a multiple of the period that is as the one a period later. */
static struct run find_run(const struct finder *f)
{
    const struct remat_span *s = f->way.items;
    uint32_t count = f->way.count;
    struct run best = {0};
    for (uint32_t period = 1; period <= count / 2; period++)
        for (uint32_t at = 0, end; at + period < count; at = end / period * period + period) {
            end = at;
            if (s[at].hash != s[at + period].hash)
                continue;
            end += count_same(f, at, at + period, count - period - at, false);
            uint32_t begin = at - count_same(f, at, at + period, at, true);
            if (end < begin + period)
                continue;
            struct run run = {.begin = begin, .period = period, .length = end + period - begin};
            run.nodes = f->sums[end + period].nodes - f->sums[begin].nodes;
            if (f->sums[end + period].products > f->sums[begin].products && run.nodes > best.nodes)
                best = run;
        }
    return best;
}

/* How many nodes the runs on the source's way have. */
static uint32_t follow(struct finder *f, uint32_t source)
{
    uint32_t nodes = 0;
    f->source = source;
    f->runs.count = 0;
    remat_spans_follow(&f->way, &f->tree, f->written, source);
    REMAT_NEW(f->arena, f->sums, (size_t)f->way.count + 1);
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (!remat_is_none(f->way.in[n]) && !remat_is_none(f->out->stack_of[n]))
            set_apart(f, f->way.in[n]);
    for (;;) {
        sum_up(f);
        struct run run = find_run(f);
        if (run.length == 0)
            break;
        nodes += run.nodes;
        REMAT_PUSH(f->arena, &f->runs, run);
        for (uint32_t s = 0; s < run.length; s++)
            set_apart(f, run.begin + s);
    }
    return nodes;
}

/* --- the whole --- */

static uint32_t find_best(struct finder *f)
{
    uint32_t most = 0, source = REMAT_NONE;
    for (uint32_t v = 0; v < f->graph->value_count; v++) {
        if (!is_source(f, v))
            continue;
        uint32_t nodes = follow(f, v);
        if (nodes > most)
            source = v;
        most = nodes > most ? nodes : most;
    }
    return source;
}

static void take_run(struct finder *f, const struct run *run)
{
    struct remat_stack stack = {.period = run->period, .length = run->length};
    REMAT_NEW(f->arena, stack.bottlenecks, run->length);
    for (uint32_t s = 0; s < run->length; s++)
        stack.bottlenecks[s] = f->way.items[run->begin + s].end;
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        uint32_t s = f->way.in[n];
        if (remat_is_none(s) || s < run->begin || s - run->begin >= run->length)
            continue;
        f->out->stack_of[n] = (uint32_t)f->stacks.count;
        f->out->span_of[n] = s - run->begin;
    }
    REMAT_PUSH(f->arena, &f->stacks, stack);
}

void remat_stacks_find(struct remat_arena *arena, const struct remat_graph *graph,
                       const bool *written, struct remat_stacks *out)
{
    struct finder f = {.arena = arena, .graph = graph, .written = written, .out = out};
    *out = (struct remat_stacks){0};
    REMAT_NEW(arena, out->stack_of, graph->node_count);
    REMAT_NEW(arena, out->span_of, graph->node_count);
    memset(out->stack_of, 0xff, graph->node_count * sizeof *out->stack_of);
    memset(out->span_of, 0xff, graph->node_count * sizeof *out->span_of);
    remat_post_dominators_find(arena, graph, &f.tree);
    remat_spans_init(arena, graph, &f.way);
    find_flow(&f);
    for (uint32_t source; !remat_is_none(source = find_best(&f));) {
        if (f.source != source)
            follow(&f, source);
        for (size_t r = 0; r < f.runs.count; r++)
            take_run(&f, &f.runs.items[r]);
    }
    out->count = (uint32_t)f.stacks.count;
    out->stacks = f.stacks.items;
}
