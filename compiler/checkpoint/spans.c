/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the nodes says in which span each lies, one more hashes them: a node's hash
 * holds those of what it reads in its span. A span's holds those of all that its last bottleneck is
 * made of, with the number of their readers: a node that is read twice is not two equal nodes. */
#include "spans.h"

#include "ops.h"

enum { UNREAD = REMAT_NONE - 1 };

static const struct remat_node_info *node_at(const struct remat_spans *f, uint32_t n)
{
    return &f->graph->nodes[n];
}

static bool is_early(const struct remat_spans *f, uint32_t n)
{
    return remat_is_early(node_at(f, n)->phase);
}

void remat_spans_init(struct remat_arena *arena, const struct remat_graph *graph,
                      struct remat_spans *out)
{
    *out = (struct remat_spans){.arena = arena, .graph = graph};
    REMAT_NEW(arena, out->place, graph->value_count);
    REMAT_NEW(arena, out->in, graph->node_count);
    REMAT_NEW(arena, out->home, graph->node_count);
    REMAT_NEW(arena, out->hash, graph->node_count);
    REMAT_NEW(arena, out->readers, graph->node_count);
}

/* --- which nodes they have --- */

static void find_bottlenecks(struct remat_spans *f, const struct remat_post_dominators *tree,
                             const bool *written, uint32_t source)
{
    uint32_t bottleneck = source;
    f->count = 0;
    REMAT_NEW(f->arena, f->items, tree->depth[tree->next[source]] + 1);
    memset(f->place, 0xff, f->graph->value_count * sizeof *f->place);
    f->place[source] = 0;
    while (bottleneck != tree->exit) {
        bottleneck = tree->next[bottleneck];
        if (bottleneck == tree->exit || written[bottleneck]) {
            f->items[f->count++].end = bottleneck;
            f->place[bottleneck] = f->count;
        }
    }
}

/* Nodes that the source does not lead to: each is where all that reads it is. */
static void adopt(struct remat_spans *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t n = 0; n < g->node_count; n++)
        f->home[n] = UNREAD;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = node_at(f, n);
        if (!is_early(f, n))
            continue;
        if (remat_is_none(f->in[n]) && f->home[n] != UNREAD &&
            remat_is_none(f->place[node->outputs[0].i]))
            f->in[n] = f->home[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t from = g->values[node->inputs[i].i].node;
            if (!remat_is_none(from) && f->home[from] != f->in[n])
                f->home[from] = f->home[from] == UNREAD ? f->in[n] : REMAT_NONE;
        }
    }
}

/* What a bottleneck leads to, and no later one, is in the span that begins with it. */
static void divide(struct remat_spans *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t n = 0; n < g->node_count; n++) {
        f->in[n] = REMAT_NONE;
        for (uint32_t i = 0; is_early(f, n) && i < node_at(f, n)->input_count; i++) {
            uint32_t from = remat_representative(g, node_at(f, n)->inputs[i].i);
            uint32_t s = f->place[from];
            if (remat_is_none(s) && !remat_is_none(g->values[from].node))
                s = f->in[g->values[from].node];
            if (!remat_is_none(s) && (remat_is_none(f->in[n]) || s > f->in[n]))
                f->in[n] = s;
        }
    }
    adopt(f);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (remat_is_none(f->in[n]) || f->in[n] >= f->count)
            f->in[n] = REMAT_NONE;
        else {
            f->items[f->in[n]].nodes++;
            f->items[f->in[n]].product |= remat_op_has(node_at(f, n)->op, REMAT_FACT_COMPUTE_HEAVY);
        }
}

/* --- which are the same --- */

enum operand { FIRST_BOTTLENECK, INSIDE, PARAMETER, OUTSIDE };

/* What an input of a node of span `s` is. */
static enum operand operand_kind(const struct remat_spans *f, uint32_t s, uint32_t v)
{
    const struct remat_value_info *value = &f->graph->values[v];
    if (f->place[remat_representative(f->graph, v)] == s)
        return FIRST_BOTTLENECK;
    if (!remat_is_none(value->node) && f->in[value->node] == s)
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

static uint64_t hash_node(const struct remat_spans *f, uint32_t n)
{
    const struct remat_node_info *node = node_at(f, n);
    uint64_t h = remat_hash(&node->op, sizeof node->op, 0);
    for (uint32_t a = 0; a < node->attribute_count; a++) /* in any order */
        if (is_compared(node, &node->attributes[a]))
            h += remat_attribute_hash(0, &node->attributes[a]);
    for (uint32_t o = 0; o < node->output_count; o++)
        h = hash_type(h, &f->graph->values[node->outputs[o].i]);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_value_info *value = &f->graph->values[node->inputs[i].i];
        uint32_t kind = operand_kind(f, f->in[n], node->inputs[i].i);
        h = hash_type(remat_hash(&kind, sizeof kind, h), value);
        if (kind == INSIDE)
            h = remat_hash(&f->hash[value->node], sizeof f->hash[0], h);
    }
    return h;
}

static void hash_spans(struct remat_spans *f)
{
    const struct remat_graph *g = f->graph;
    memset(f->readers, 0, g->node_count * sizeof *f->readers);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!remat_is_none(f->in[n]))
            f->hash[n] = hash_node(f, n);
    for (uint32_t s = 0; s < f->count; s++)
        f->readers[g->values[f->items[s].end].node] = 1;
    for (uint32_t n = g->node_count; n-- > 0;) {
        if (remat_is_none(f->in[n]) || f->readers[n] == 0)
            continue;
        const uint64_t words[] = {f->hash[n], f->readers[n]};
        f->items[f->in[n]].hash += remat_hash(words, sizeof words, 0);
        for (uint32_t i = 0; i < node_at(f, n)->input_count; i++) {
            uint32_t v = node_at(f, n)->inputs[i].i;
            if (operand_kind(f, f->in[n], v) == INSIDE)
                f->readers[g->values[v].node]++;
        }
    }
}

void remat_spans_follow(struct remat_spans *f, const struct remat_post_dominators *tree,
                        const bool *written, uint32_t source)
{
    find_bottlenecks(f, tree, written, source);
    divide(f);
    hash_spans(f);
}
