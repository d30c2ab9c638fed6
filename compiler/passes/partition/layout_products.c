/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of products and tables: what begins to split, and what the sum over a split axis leaves
 * unfinished. */
#include "layout_finder.h"

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The last axis of a product later on, as far as it keeps its length. */
struct columns {
    int64_t length, block; /* block: divides where it is cut */
    bool are_classes;      /* they are counted, as ids are */
};

static void follow_readers(struct layout_finder *f, remat_value v, struct columns *c)
{
    for (uint32_t k = f->readers.begin[v.i]; k < f->readers.begin[v.i + 1]; k++) {
        const struct remat_node_info *node = &f->graph->nodes[f->readers.nodes[k].i];
        const struct remat_shape *from = shape_of(f, v), *to = shape_of(f, node->outputs[0]);
        c->are_classes |= node->op == REMAT_OP_column;
        if (node->op == REMAT_OP_slice && remat_node_int(node, "axis", 0) == from->rank - 1)
            c->block = divisor(divisor(c->block, remat_node_int(node, "begin", 0)),
                               remat_node_int(node, "end", 0));
        bool same = to->rank > 0 && to->dims[to->rank - 1] == c->length;
        bool follows = node->op == REMAT_OP_reshape || node->op == REMAT_OP_cast ||
                       (node->op == REMAT_OP_add && remat_shape_equal(from, to));
        if (same && follows && remat_in_forward_pass(node->phase) &&
            f->walk_of[node->outputs[0].i] != f->walk) {
            f->walk_of[node->outputs[0].i] = f->walk;
            REMAT_PUSH(f->arena, &f->worklist, node->outputs[0]);
        }
    }
}

static void follow_columns(struct layout_finder *f, remat_value v, struct columns *c)
{
    f->walk++;
    follow_readers(f, v, c);
    while (f->worklist.count > 0)
        follow_readers(f, f->worklist.items[--f->worklist.count], c);
}

static remat_status refuse_classes(const struct layout_finder *f, remat_value v, uint32_t dimension)
{
    return remat_layout_refuse_blocks(f, v, dimension, shape_of(f, v)->dims[dimension],
                                      ": remat-graph --make-vocab-size-divisible-by pads it");
}

/* Splits the columns of a product with an open parameter, b. */
static remat_status begin_columns(struct layout_finder *f, const struct layout_rule *r, uint32_t b,
                                  uint32_t b_axis)
{
    remat_value y = r->node->outputs[0], w = r->node->inputs[b];
    const struct remat_shape *to = shape_of(f, y);
    remat_node n = remat_producer(f->graph, y);
    struct columns c = {to->dims[to->rank - 1], to->dims[to->rank - 1], false};
    if (!remat_in_forward_pass(r->node->phase))
        return REMAT_OK;
    follow_columns(f, y, &c);
    if (!c.are_classes && f->bottleneck[n.i])
        return REMAT_OK;
    if (c.block % f->ranks)
        return c.are_classes ? refuse_classes(f, w, b_axis)
                             : remat_layout_refuse_blocks(f, w, b_axis, c.block, "");
    r->want[b] = split_at(shape_of(f, w), b_axis, c.block / f->ranks);
    r->out[0] = split_at(to, to->rank - 1, c.block / f->ranks);
    return REMAT_OK;
}

/* Or a view or cast of one. */
static bool is_parameter(const struct layout_finder *f, remat_value v)
{
    const struct remat_value_info *info = &f->graph->values[f->root[v.i].i];
    return remat_is_none(info->node.i) && info->role == REMAT_ROLE_PARAMETER;
}

/* Whose rows are tokens. */
static struct remat_layout sum_of_tokens(struct layout_finder *f, const struct remat_shape *shape)
{
    int64_t elements = remat_shape_elements(shape);
    bool divides = elements / shape->dims[shape->rank - 1] % f->ranks == 0;
    if (!f->sequence_parallel || !divides)
        return sum;
    f->scatters = true;
    return (struct remat_layout){REMAT_LAYOUT_SUM, true, elements / f->ranks};
}

remat_status remat_layout_rule_matmul(struct layout_finder *f, const struct layout_rule *r)
{
    uint32_t first = r->node->op == REMAT_OP_matmul_accumulate;
    const remat_value a = r->node->inputs[first], b = r->node->inputs[first + 1];
    const struct remat_shape *as = shape_of(f, a), *bs = shape_of(f, b);
    const struct remat_shape *to = shape_of(f, r->node->outputs[0]);
    uint32_t rank = as->rank;
    bool ta = remat_node_int(r->node, "transpose_a", 0),
         tb = remat_node_int(r->node, "transpose_b", 0);
    uint32_t a_k = ta ? rank - 2 : rank - 1, b_k = tb ? rank - 1 : rank - 2;
    uint32_t a_m = ta ? rank - 1 : rank - 2, b_n = tb ? rank - 2 : rank - 1;
    struct remat_layout *want = r->want + first, *out = r->out;
    struct remat_place p = {0}, q = {0};
    bool has_a = place_of(f, a, &p) && !p.joint, has_b = place_of(f, b, &q) && !q.joint;
    if (layout_of(f, b)->kind == REMAT_LAYOUT_OPEN && (!has_a || p.tokens)) {
        REMAT_CHECK(begin_columns(f, r, first + 1, b_n));
        if (out->kind == REMAT_LAYOUT_SPLIT)
            return REMAT_OK;
    }
    if (has_a && has_b && p.tokens != q.tokens)
        *(p.tokens ? &has_a : &has_b) = false;
    if ((has_a && p.axis == a_k) || (has_b && q.axis == b_k)) {
        const struct remat_place *by = has_a && p.axis == a_k ? &p : &q;
        want[0] = split_like(as, a_k, by);
        want[1] = split_like(bs, b_k, by);
        *out = is_parameter(f, b) && !by->tokens ? sum_of_tokens(f, to) : sum;
    } else if ((has_a && p.axis + 2 < rank) || (has_b && q.axis + 2 < rank)) {
        const struct remat_place *by = has_a && p.axis + 2 < rank ? &p : &q;
        for (uint32_t k = 0; k < 2; k++)
            if ((k ? bs : as)->dims[by->axis] > 1)
                want[k] = split_like(k ? bs : as, by->axis, by);
        *out = split_like(to, by->axis, by);
    } else if (has_a && p.axis == a_m) {
        want[0] = finished(f, a);
        *out = split_like(to, rank - 2, &p);
    } else if (has_b && q.axis == b_n) {
        want[1] = finished(f, b);
        *out = split_like(to, rank - 1, &q);
    }
    if (first && out->kind == REMAT_LAYOUT_SUM && !passes_on(f, r->node->inputs[0]))
        want[0] = want[1] = *out = whole; /* each rank would add all of it */
    if (first)
        r->want[0] = *out;
    return REMAT_OK;
}

/* Heads, axis 2 of all but the logs of sums of exponentials; each rank has the key heads of its
 * query heads. */
remat_status remat_layout_rule_attention(struct layout_finder *f, const struct layout_rule *r)
{
    const struct remat_node_info *node = r->node;
    bool backward = node->op == REMAT_OP_attention_backward;
    bool splits = false;
    struct remat_place place;
    for (uint32_t k = 0; k < 3; k++)
        splits |=
            place_of(f, node->inputs[backward + k], &place) && place.axis == 2 && place.blocks == 1;
    if (!splits)
        return REMAT_OK;
    int64_t entries = shape_of(f, node->inputs[0])->dims[0];
    if (remat_node_number(node, "p") != 0 && entries > REMAT_LAYOUT_ENTRIES_MAX)
        return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                           "node \"%.400s\": attention with dropout divides at most %d sequences "
                           "along %s, here are %lld: use more microbatches",
                           f->graph->values[node->outputs[0].i].name, REMAT_LAYOUT_ENTRIES_MAX,
                           f->axis, (long long)entries);
    for (uint32_t k = 0; k < node->input_count + node->output_count; k++) {
        bool is_output = k >= node->input_count;
        remat_value v = is_output ? node->outputs[k - node->input_count] : node->inputs[k];
        const struct remat_shape *shape = shape_of(f, v);
        if (shape->rank < 3)
            continue; /* the random state */
        uint32_t axis = shape->rank == 4 ? 2 : 1;
        if (shape->dims[axis] % f->ranks)
            return remat_layout_refuse(f, v, axis);
        (is_output ? r->out - node->input_count : r->want)[k] =
            split_at(shape, axis, shape->dims[axis] / f->ranks);
    }
    return REMAT_OK;
}

/* --- tables --- */

/* Its rows are also the head's. */
static bool makes_logits(struct layout_finder *f, remat_value table)
{
    struct columns c = {shape_of(f, table)->dims[0], 1, false};
    for (uint32_t k = f->readers.begin[table.i]; k < f->readers.begin[table.i + 1]; k++) {
        const struct remat_node_info *node = &f->graph->nodes[f->readers.nodes[k].i];
        if (node->op == REMAT_OP_matmul && remat_in_forward_pass(node->phase))
            follow_columns(f, node->outputs[0], &c);
    }
    return c.are_classes;
}

/* A rank knows its rows by ids in f32. */
static bool may_split_rows(const struct remat_shape *table)
{
    return table->dims[0] <= REMAT_WHOLES_MAX;
}

remat_status remat_layout_rule_embedding(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value table = r->node->inputs[0];
    const struct remat_shape *shape = shape_of(f, table), *to = shape_of(f, r->node->outputs[0]);
    struct remat_layout *layout = layout_of(f, table);
    struct remat_place place;
    bool divides = shape->dims[0] % f->ranks == 0;
    if (layout->kind == REMAT_LAYOUT_OPEN && !divides && makes_logits(f, table))
        return refuse_classes(f, table, 0);
    if (layout->kind == REMAT_LAYOUT_OPEN && divides && may_split_rows(shape)) {
        r->want[0] = split_at(shape, 0, shape->dims[0] / f->ranks);
        r->out[0] = sum_of_tokens(f, to);
    } else if (place_of(f, table, &place) &&
               (place.axis == 1 || (place.blocks == 1 && may_split_rows(shape)))) {
        r->want[0] = *layout;
        r->out[0] =
            place.axis == 0 ? sum_of_tokens(f, to) : split_at(to, to->rank - 1, place.width);
    }
    return REMAT_OK;
}

/* The layout of the table that was read by the same ids, the first of that shape. */
static struct remat_layout find_table(struct layout_finder *f, const struct remat_node_info *node)
{
    remat_value ids = node->inputs[1];
    for (uint32_t k = f->readers.begin[ids.i]; k < f->readers.begin[ids.i + 1]; k++) {
        const struct remat_node_info *reads = &f->graph->nodes[f->readers.nodes[k].i];
        if (reads->op == REMAT_OP_embedding &&
            remat_shape_equal(shape_of(f, reads->inputs[0]), shape_of(f, node->outputs[0])))
            return *layout_of(f, reads->inputs[0]);
    }
    return whole;
}

remat_status remat_layout_rule_embedding_backward(struct layout_finder *f,
                                                  const struct layout_rule *r)
{
    const struct remat_node_info *node = r->node;
    bool adds = node->op == REMAT_OP_embedding_accumulate;
    const struct remat_shape *table = shape_of(f, node->outputs[0]);
    const struct remat_shape *dout = shape_of(f, node->inputs[adds]);
    struct remat_layout layout = adds ? *layout_of(f, node->inputs[0]) : find_table(f, node);
    struct remat_place place;
    if (!remat_layout_place(table, layout, f->ranks, &place) ||
        (place.axis == 0 && (place.blocks > 1 || !may_split_rows(table))))
        return REMAT_OK;
    if (adds)
        r->want[0] = layout;
    if (place.axis == 1)
        r->want[adds] = split_at(dout, dout->rank - 1, place.width);
    r->out[0] = layout;
    return REMAT_OK;
}
