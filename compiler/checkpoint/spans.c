/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the nodes says in which span each lies, one more hashes them: a node's hash
 * holds those of what it reads in its span, so the last bottleneck's is the span's. */
#include "spans.h"

#include "ops.h"

enum { UNREAD = REMAT_NONE - 1 };

static const struct remat_node_info *node_at(const struct remat_spans *f, uint32_t n)
{
    return &f->graph->nodes[n];
}

static bool is_early(const struct remat_spans *f, uint32_t n)
{
    return remat_is_early_node(node_at(f, n));
}

void remat_spans_init(struct remat_arena *arena, const struct remat_graph *graph,
                      struct remat_spans *out)
{
    *out = (struct remat_spans){.arena = arena, .graph = graph};
    REMAT_NEW(arena, out->place, graph->value_count);
    REMAT_NEW(arena, out->in, graph->node_count);
    REMAT_NEW(arena, out->home, graph->node_count);
    REMAT_NEW(arena, out->hash, graph->node_count);
    REMAT_NEW(arena, out->twin, graph->node_count);
    memset(out->twin, 0xff, graph->node_count * sizeof *out->twin);
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

/* --- whether two are the same --- */

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
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (!remat_is_none(f->in[n]))
            f->hash[n] = hash_node(f, n);
    for (uint32_t s = 0; s < f->count; s++)
        f->items[s].hash = f->hash[f->graph->values[f->items[s].end].node];
}

static bool same_type(const struct remat_value_info *a, const struct remat_value_info *b)
{
    return a->dtype == b->dtype && a->result == b->result &&
           remat_shape_equal(&a->shape, &b->shape);
}

static bool same_attributes(const struct remat_node_info *a, const struct remat_node_info *b)
{
    if (a->attribute_count != b->attribute_count)
        return false;
    for (uint32_t k = 0; k < a->attribute_count; k++) {
        const struct remat_attribute *p = &a->attributes[k];
        const struct remat_attribute *q = remat_node_attribute(b, p->key);
        if (!q || (is_compared(a, p) && !remat_attribute_equal(p, q)))
            return false;
    }
    return true;
}

/* Two nodes are twins of each other only. */
static void pair(struct remat_spans *f, uint32_t a, uint32_t b, bool *same)
{
    if (remat_is_none(f->twin[a]) && remat_is_none(f->twin[b])) {
        f->twin[a] = b;
        f->twin[b] = a;
        REMAT_PUSH(f->arena, &f->pairs, a);
        REMAT_PUSH(f->arena, &f->pairs, b);
    }
    *same = f->twin[a] == b && f->twin[b] == a;
}

static void compare_nodes(struct remat_spans *f, uint32_t a, uint32_t b, bool *same)
{
    const struct remat_node_info *p = node_at(f, a), *q = node_at(f, b);
    const struct remat_value_info *values = f->graph->values;
    *same = p->op == q->op && p->output_count == q->output_count &&
            p->input_count == q->input_count && same_attributes(p, q);
    for (uint32_t o = 0; *same && o < p->output_count; o++)
        *same = same_type(&values[p->outputs[o].i], &values[q->outputs[o].i]);
    for (uint32_t i = 0; *same && i < p->input_count; i++) {
        uint32_t u = p->inputs[i].i, v = q->inputs[i].i;
        enum operand kind = operand_kind(f, f->in[a], u);
        *same = kind == operand_kind(f, f->in[b], v) && same_type(&values[u], &values[v]);
        if (*same && kind == INSIDE)
            pair(f, values[u].node, values[v].node, same);
    }
}

void remat_spans_compare(struct remat_spans *f, uint32_t s, uint32_t t, bool *same)
{
    const struct remat_value_info *values = f->graph->values;
    for (size_t i = 0; i < f->pairs.count; i++)
        f->twin[f->pairs.items[i]] = REMAT_NONE;
    f->pairs.count = 0;
    pair(f, values[f->items[s].end].node, values[f->items[t].end].node, same);
    for (size_t i = 0; *same && i < f->pairs.count; i += 2)
        compare_nodes(f, f->pairs.items[i], f->pairs.items[i + 1], same);
}

void remat_spans_follow(struct remat_spans *f, const struct remat_post_dominators *tree,
                        const bool *written, uint32_t source)
{
    find_bottlenecks(f, tree, written, source);
    divide(f);
    hash_spans(f);
}
