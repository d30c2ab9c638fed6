/* SPDX-License-Identifier: Apache-2.0 */
/* A source is where data enter the network: a graph input of floating point, or the first that is
 * made of data and parameters. Its way to the exit goes through bottlenecks, by the
 * post-dominators; masks, tables and the output of an encoder, which all layers read, lead to some
 * place after the last of them, so their own ways have no bottlenecks between layers, and they
 * hide none. Runs that repeat with some period are looked for among the hashes of the spans. A
 * node's hash holds those of what it reads in its span; a span's holds those of all that its last
 * bottleneck is made of, with the number of their readers: a node that is read twice is not two
 * equal nodes.
 *
 * The source whose stacks have most nodes comes first, then the best of the nodes left. One source
 * takes O(inputs of all nodes), and one search for a run O(bottlenecks log bottlenecks), beside all
 * multiples of the periods of smaller runs. */
#include "stacks.h"

#include "analysis.h"
#include "ops.h"

#define NO_SPAN ((remat_span_id){REMAT_NONE})
enum { UNREAD = REMAT_NONE - 1 };

struct span {
    remat_value end; /* the bottleneck that it leads to; the one before begins it */
    uint32_t nodes, products;
    uint64_t hash;
};

struct repeat {
    uint32_t begin, period, length, nodes, products;
};

struct finder {
    struct remat_arena *arena, *scratch;
    const struct remat_graph *graph;
    const bool *written;
    remat_value exit;       /* which all ways lead to */
    struct remat_tree ways; /* bottlenecks */
    bool *flows;            /* by value in the tree */
    /* The way of the source that was followed last. */
    remat_value source;
    uint32_t span_count;
    struct span *spans;         /* in order; those of all ways in one array */
    remat_span_id *place;       /* by value: the span that it begins */
    remat_span_id *in;          /* by node: which span it lies in; may be none */
    remat_span_id *reader_span; /* by node: the span that all its readers lie in */
    uint64_t *hash;             /* by node */
    uint32_t *readers;          /* by node: in its span, of what the last bottleneck is made of */
    struct REMAT_LIST(struct repeat) runs;
    struct remat_stacks *out;
    struct REMAT_LIST(struct remat_stack) stacks;
};

/* --- sources --- */

/* What the last node of the forward pass and the loss gives that the backward pass reads from; may
 * be none. Views read nothing. */
static remat_value find_exit(const struct remat_graph *g)
{
    remat_node last = REMAT_NO_NODE;
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0;
             !remat_in_forward_pass(g->nodes[n].phase) && i < g->nodes[n].input_count; i++) {
            remat_node from = remat_producer(g, remat_storage_root(g, g->nodes[n].inputs[i]));
            if (!remat_is_none(from.i) && remat_in_forward_pass(g->nodes[from.i].phase) &&
                (remat_is_none(last.i) || from.i > last.i))
                last = from;
        }
    return remat_is_none(last.i) ? REMAT_NO_VALUE : g->nodes[last.i].outputs[0];
}

static void find_flow(struct finder *f)
{
    const struct remat_graph *g = f->graph;
    bool *data, *parameter; /* by value: depends on some */
    REMAT_NEW(f->scratch, f->flows, g->value_count);
    REMAT_NEW(f->scratch, data, g->value_count);
    REMAT_NEW(f->scratch, parameter, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        data[v] = g->values[v].role == REMAT_ROLE_INPUT && remat_is_none(g->values[v].node.i);
        parameter[v] = g->values[v].role == REMAT_ROLE_PARAMETER;
        f->flows[v] = data[v] && remat_dtype_is_float(g->values[v].dtype);
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct remat_node_info *node = &g->nodes[n];
        remat_value v = node->outputs[0];
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_value from = remat_first_result(g, node->inputs[i]);
            data[v.i] |= data[from.i];
            parameter[v.i] |= parameter[from.i];
            f->flows[v.i] |= f->flows[from.i];
        }
        f->flows[v.i] |= data[v.i] && parameter[v.i];
    }
}

/* An input of a stack that is known leads to no other one. */
static bool is_source(const struct finder *f, remat_value v)
{
    remat_node node = remat_producer(f->graph, v);
    remat_value next = {f->ways.parent[v.i]};
    if (!f->flows[v.i] || remat_is_none(next.i) ||
        !remat_is_none(f->out->stack_of[remat_producer(f->graph, next).i].i))
        return false;
    if (remat_is_none(node.i))
        return true;
    const struct remat_node_info *info = &f->graph->nodes[node.i];
    for (uint32_t i = 0; i < info->input_count; i++)
        if (f->flows[remat_first_result(f->graph, info->inputs[i]).i])
            return false;
    return remat_is_none(f->out->stack_of[node.i].i);
}

/* --- spans --- */

static void find_bottlenecks(struct finder *f)
{
    remat_value bottleneck = f->source;
    memset(f->spans, 0, f->span_count * sizeof *f->spans);
    f->span_count = 0;
    memset(f->place, 0xff, f->graph->value_count * sizeof *f->place);
    f->place[f->source.i].i = 0;
    while (bottleneck.i != f->exit.i) {
        bottleneck.i = f->ways.parent[bottleneck.i];
        if (bottleneck.i == f->exit.i || f->written[bottleneck.i]) {
            f->spans[f->span_count++].end = bottleneck;
            f->place[bottleneck.i].i = f->span_count;
        }
    }
}

/* Nodes that the source does not lead to: each is the span that all its readers lie in. */
static void adopt(struct finder *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t n = 0; n < g->node_count; n++)
        f->reader_span[n].i = UNREAD;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        if (!remat_in_forward_pass(node->phase))
            continue;
        if (remat_is_none(f->in[n].i) && f->reader_span[n].i != UNREAD &&
            remat_is_none(f->place[node->outputs[0].i].i))
            f->in[n] = f->reader_span[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_node from = remat_producer(g, node->inputs[i]);
            if (!remat_is_none(from.i) && f->reader_span[from.i].i != f->in[n].i)
                f->reader_span[from.i] = f->reader_span[from.i].i == UNREAD ? f->in[n] : NO_SPAN;
        }
    }
}

/* A node that a bottleneck leads to, and no later one does, is in the span that begins there. */
static void divide(struct finder *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct remat_node_info *node = &g->nodes[n];
        f->in[n] = NO_SPAN;
        for (uint32_t i = 0; remat_in_forward_pass(node->phase) && i < node->input_count; i++) {
            remat_value from = remat_first_result(g, node->inputs[i]);
            remat_node reader_span = remat_producer(g, from);
            remat_span_id s = f->place[from.i];
            if (remat_is_none(s.i) && !remat_is_none(reader_span.i))
                s = f->in[reader_span.i];
            if (!remat_is_none(s.i) && (remat_is_none(f->in[n].i) || s.i > f->in[n].i))
                f->in[n] = s;
        }
    }
    adopt(f);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (remat_is_none(f->in[n].i) || f->in[n].i >= f->span_count)
            f->in[n] = NO_SPAN;
        else {
            f->spans[f->in[n].i].nodes++;
            f->spans[f->in[n].i].products += remat_op_has(g->nodes[n].op, REMAT_FACT_COMPUTE_HEAVY);
        }
}

enum operand { FIRST_BOTTLENECK, INSIDE, PARAMETER, OUTSIDE };

/* The kind of an input of a node of span `s`. */
static enum operand operand_kind(const struct finder *f, remat_span_id s, remat_value v)
{
    const struct remat_value_info *value = &f->graph->values[v.i];
    if (f->place[remat_first_result(f->graph, v).i].i == s.i)
        return FIRST_BOTTLENECK;
    if (!remat_is_none(value->node.i) && f->in[value->node.i].i == s.i)
        return INSIDE;
    return value->role == REMAT_ROLE_PARAMETER ? PARAMETER : OUTSIDE;
}

/* Each random site has its own number. */
static bool is_compared(const struct remat_node_info *node, const struct remat_attribute *attribute)
{
    return !remat_op_has(node->op, REMAT_FACT_RANDOM) || strcmp(attribute->key, "site") != 0;
}

static uint64_t hash_type(uint64_t h, const struct remat_value_info *value)
{
    const uint32_t words[] = {value->dtype, value->result, value->shape.rank};
    h = remat_hash(words, sizeof words, h);
    return remat_hash(value->shape.dims, value->shape.rank * sizeof value->shape.dims[0], h);
}

static uint64_t hash_node(const struct finder *f, remat_node n)
{
    const struct remat_node_info *node = &f->graph->nodes[n.i];
    uint64_t h = remat_hash(&node->op, sizeof node->op, 0);
    for (uint32_t a = 0; a < node->attribute_count; a++) /* in any order */
        if (is_compared(node, &node->attributes[a]))
            h += remat_attribute_hash(0, &node->attributes[a]);
    for (uint32_t o = 0; o < node->output_count; o++)
        h = hash_type(h, &f->graph->values[node->outputs[o].i]);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_value_info *value = &f->graph->values[node->inputs[i].i];
        uint32_t kind = operand_kind(f, f->in[n.i], node->inputs[i]);
        h = hash_type(remat_hash(&kind, sizeof kind, h), value);
        if (kind == INSIDE)
            h = remat_hash(&f->hash[value->node.i], sizeof f->hash[0], h);
    }
    return h;
}

static void hash_spans(struct finder *f)
{
    const struct remat_graph *g = f->graph;
    memset(f->readers, 0, g->node_count * sizeof *f->readers);
    for (remat_node n = {0}; n.i < g->node_count; n.i++)
        if (!remat_is_none(f->in[n.i].i))
            f->hash[n.i] = hash_node(f, n);
    for (uint32_t s = 0; s < f->span_count; s++)
        f->readers[remat_producer(g, f->spans[s].end).i] = 1;
    for (uint32_t n = g->node_count; n-- > 0;) {
        if (remat_is_none(f->in[n].i) || f->readers[n] == 0)
            continue;
        const uint64_t words[] = {f->hash[n], f->readers[n]};
        f->spans[f->in[n].i].hash += remat_hash(words, sizeof words, 0);
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            remat_value v = g->nodes[n].inputs[i];
            if (operand_kind(f, f->in[n], v) == INSIDE)
                f->readers[remat_producer(g, v).i]++;
        }
    }
}

/* --- runs --- */

/* The longest run around span `at`, which equals the one a period later. */
static struct repeat run_around(const struct finder *f, uint32_t at, uint32_t period)
{
    const struct span *s = f->spans;
    struct repeat run = {.begin = at, .period = period};
    uint32_t end = at + period;
    while (run.begin > 0 && s[run.begin - 1].hash == s[run.begin - 1 + period].hash)
        run.begin--;
    while (end < f->span_count && s[end - period].hash == s[end].hash)
        end++;
    run.length = end - run.begin;
    for (uint32_t i = run.begin; i < end; i++) {
        run.nodes += s[i].nodes;
        run.products += s[i].products;
    }
    return run;
}

/* The run with the most nodes, of those that have a product. A run has, at a multiple of its
 * period, a span that equals the one a period later. Where the best one so far has both, with a
 * multiple of its own period, it is that run. */
static struct repeat find_run(const struct finder *f)
{
    struct repeat best = {.period = 1};
    for (uint32_t period = 1; period <= f->span_count / 2; period++)
        for (uint32_t at = 0; at + period < f->span_count; at = at / period * period + period) {
            bool known = period % best.period == 0 && at >= best.begin &&
                         at + period < best.begin + best.length;
            if (f->spans[at].hash != f->spans[at + period].hash)
                continue;
            struct repeat run = known ? best : run_around(f, at, period);
            if (run.length >= 2 * period && run.products > 0 && run.nodes > best.nodes)
                best = run;
            at = run.begin + run.length - period;
        }
    return best;
}

/* How many nodes the runs on the source's way have. A span with nodes of a run or of a stack equals
 * no other. */
static uint32_t follow(struct finder *f, remat_value source)
{
    uint32_t nodes = 0;
    f->source = source;
    f->runs.count = 0;
    find_bottlenecks(f);
    divide(f);
    hash_spans(f);
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (!remat_is_none(f->in[n].i) && !remat_is_none(f->out->stack_of[n].i))
            f->spans[f->in[n].i].hash = f->in[n].i;
    for (;;) {
        struct repeat run = find_run(f);
        if (run.length == 0)
            return nodes;
        nodes += run.nodes;
        REMAT_PUSH(f->scratch, &f->runs, run);
        for (uint32_t s = run.begin; s < run.begin + run.length; s++)
            f->spans[s].hash = s;
    }
}

/* --- the whole --- */

static remat_value find_best(struct finder *f)
{
    uint32_t most = 0;
    remat_value source = REMAT_NO_VALUE;
    for (remat_value v = {0}; v.i < f->graph->value_count; v.i++) {
        if (!is_source(f, v))
            continue;
        uint32_t nodes = follow(f, v);
        if (nodes > most)
            source = v;
        most = nodes > most ? nodes : most;
    }
    return source;
}

static void take_run(struct finder *f, const struct repeat *run)
{
    struct remat_stack stack = {.period = run->period, .length = run->length};
    REMAT_NEW(f->arena, stack.bottlenecks, run->length);
    for (uint32_t s = 0; s < run->length; s++)
        stack.bottlenecks[s] = f->spans[run->begin + s].end;
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        remat_span_id s = f->in[n];
        if (remat_is_none(s.i) || s.i < run->begin || s.i - run->begin >= run->length)
            continue;
        f->out->stack_of[n].i = (uint32_t)f->stacks.count;
        f->out->span_of[n].i = s.i - run->begin;
    }
    REMAT_PUSH(f->arena, &f->stacks, stack);
}

void remat_stacks_find(struct remat_arena *arena, const struct remat_graph *graph,
                       const bool *written, struct remat_stacks *out)
{
    struct finder f = {.arena = arena,
                       .scratch = remat_scratch_open(arena->ctx),
                       .graph = graph,
                       .written = written,
                       .out = out};
    *out = (struct remat_stacks){0};
    REMAT_NEW(arena, out->stack_of, graph->node_count);
    REMAT_NEW(arena, out->span_of, graph->node_count);
    memset(out->stack_of, 0xff, graph->node_count * sizeof *out->stack_of);
    memset(out->span_of, 0xff, graph->node_count * sizeof *out->span_of);
    f.exit = find_exit(graph);
    remat_find_post_dominators(f.scratch, graph, f.exit, &f.ways);
    REMAT_NEW(f.scratch, f.spans, graph->value_count);
    REMAT_NEW(f.scratch, f.place, graph->value_count);
    REMAT_NEW(f.scratch, f.in, graph->node_count);
    REMAT_NEW(f.scratch, f.reader_span, graph->node_count);
    REMAT_NEW(f.scratch, f.hash, graph->node_count);
    REMAT_NEW(f.scratch, f.readers, graph->node_count);
    find_flow(&f);
    for (remat_value source; !remat_is_none((source = find_best(&f)).i);) {
        if (f.source.i != source.i)
            follow(&f, source);
        for (size_t r = 0; r < f.runs.count; r++)
            take_run(&f, &f.runs.items[r]);
    }
    out->count = (uint32_t)f.stacks.count;
    out->stacks = f.stacks.items;
    remat_scratch_close(f.scratch);
}
