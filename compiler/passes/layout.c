/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts go forward through the graph, backward pass included: from the layouts of its inputs,
 * the rule of a node's op says in which layout it reads each, and in which its results are. A
 * parameter has the layout that its first reader asks for. Only two ops begin to split: embedding,
 * the rows of its table; and matmul, the columns of a parameter whose product lies within what
 * layers hand on to each other, or is logits. All else follows: a product over split columns is
 * unfinished, and is finished where an op is not linear.
 *
 * What layers hand on are the values that every way from an input to the loss passes. */
#include "layout.h"

#include "rebuild.h"

#include <inttypes.h>

struct finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_layouts *layouts;
    const char *axis;
    int64_t ranks;
    uint32_t *root; /* of each value: itself, or the open parameter that it is a view or cast of */
    uint32_t *uses; /* of each value */
    uint32_t *reader;       /* of each value: its last use, REMAT_NONE: none */
    uint32_t *next;         /* of each use: the one before it */
    uint32_t *user;         /* of each use: the node */
    bool *handed;           /* of each node: layers hand its result on */
    uint32_t look, *looked; /* of each value: in which look at columns it was found last */
    struct REMAT_LIST(remat_value) to_look_at;
};

/* --- layouts --- */

static const struct remat_layout whole = {REMAT_LAYOUT_WHOLE, 0}, sum = {REMAT_LAYOUT_SUM, 0};

bool remat_layout_place(const struct remat_shape *shape, int64_t run, int64_t ranks,
                        struct remat_place *out)
{
    int64_t after = 1;
    for (uint32_t d = shape->rank; d-- > 0; after *= shape->dims[d]) {
        int64_t all = after * shape->dims[d];
        if (run % after == 0 && run < all && all % (run * ranks) == 0) {
            *out = (struct remat_place){d, all / (run * ranks), run / after};
            return true;
        }
    }
    return false;
}

struct remat_shape remat_layout_shape(const struct remat_shape *shape, struct remat_layout layout,
                                      int64_t ranks)
{
    struct remat_shape out = *shape;
    struct remat_place place;
    if (layout.kind == REMAT_LAYOUT_SPLIT && remat_layout_place(shape, layout.run, ranks, &place))
        out.dims[place.axis] /= ranks;
    return out;
}

static struct remat_layout split_at(const struct remat_shape *shape, uint32_t axis, int64_t width)
{
    struct remat_layout out = {REMAT_LAYOUT_SPLIT, width};
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        out.run *= shape->dims[d];
    return out;
}

static const struct remat_shape *shape_of(const struct finder *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

static struct remat_layout *layout_of(struct finder *f, remat_value v)
{
    return &f->layouts->of[f->root[v.i]];
}

/* Where an input is split; false: it is not. */
static bool place_of(struct finder *f, remat_value v, struct remat_place *out)
{
    struct remat_layout layout = *layout_of(f, v);
    return layout.kind == REMAT_LAYOUT_SPLIT &&
           remat_layout_place(shape_of(f, v), layout.run, f->ranks, out);
}

static bool is_unfinished(struct finder *f, remat_value v)
{
    return layout_of(f, v)->kind >= REMAT_LAYOUT_SUM;
}

/* Nobody else would need the finished value. */
static bool passes_on(struct finder *f, remat_value v)
{
    return layout_of(f, v)->kind == REMAT_LAYOUT_SUM && f->uses[v.i] == 1;
}

/* A dimension in blocks of `block`. */
static remat_status refuse_blocks(const struct finder *f, remat_value v, uint32_t dimension,
                                  int64_t block, const char *advice)
{
    const struct remat_value_info *info = &f->graph->values[v.i];
    int64_t length = info->shape.dims[dimension];
    const char *blocks =
        block == length ? "" : REMAT_FORMAT(f->arena, " in blocks of %lld", (long long)block);
    return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                       "value \"%.400s\": dimension %" PRIu32 ", of %lld%s, is not divisible by "
                       "%lld ranks along %s%s",
                       info->name, dimension, (long long)length, blocks, (long long)f->ranks,
                       f->axis, advice);
}

static remat_status refuse(const struct finder *f, remat_value v, uint32_t dimension)
{
    return refuse_blocks(f, v, dimension, shape_of(f, v)->dims[dimension], "");
}

/* --- rules: `want` comes filled with whole, `out` too --- */

struct rule_of {
    const struct remat_node_info *node;
    struct remat_layout *want, *out;
};

/* All wholes. */
static remat_status rule_whole(struct finder *f, const struct rule_of *r)
{
    (void)f, (void)r;
    return REMAT_OK;
}

/* A sum of sums, or a multiple of one. */
static bool is_linear(struct finder *f, const struct remat_node_info *node)
{
    bool adds = node->op == REMAT_OP_add || node->op == REMAT_OP_sub;
    bool scales = node->op == REMAT_OP_mul || node->op == REMAT_OP_neg;
    uint32_t sums = 0, numbers = 0;
    for (uint32_t k = 0; k < node->input_count; k++) {
        const struct remat_shape *shape = shape_of(f, node->inputs[k]);
        bool full = remat_shape_equal(shape, shape_of(f, node->outputs[0]));
        sums += passes_on(f, node->inputs[k]) && full;
        numbers += layout_of(f, node->inputs[k])->kind == REMAT_LAYOUT_WHOLE &&
                   remat_shape_elements(shape) == 1;
    }
    return (adds && sums == 2) || (scales && sums == 1 && numbers + 1 == node->input_count);
}

/* The largest split input, REMAT_NONE without one. */
static uint32_t find_split(struct finder *f, const struct remat_node_info *node)
{
    uint32_t found = REMAT_NONE;
    int64_t most = 0;
    struct remat_place place;
    for (uint32_t k = 0; k < node->input_count; k++) {
        int64_t elements = remat_shape_elements(shape_of(f, node->inputs[k]));
        if (!place_of(f, node->inputs[k], &place) || elements <= most)
            continue;
        most = elements;
        found = k;
    }
    return found;
}

static remat_status rule_pointwise(struct finder *f, const struct rule_of *r)
{
    const struct remat_node_info *node = r->node;
    const struct remat_shape *to = shape_of(f, node->outputs[0]);
    uint32_t k = find_split(f, node);
    struct remat_place place;
    if (is_linear(f, node)) {
        for (uint32_t i = 0; i < node->input_count; i++)
            r->want[i] = is_unfinished(f, node->inputs[i]) ? sum : whole;
        r->out[0] = sum;
    }
    if (k == REMAT_NONE)
        return REMAT_OK;
    (void)place_of(f, node->inputs[k], &place);
    uint32_t axis = place.axis + to->rank - shape_of(f, node->inputs[k])->rank;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_shape *from = shape_of(f, node->inputs[i]);
        uint32_t lead = to->rank - from->rank;
        if (axis >= lead && from->dims[axis - lead] == to->dims[axis])
            r->want[i] = split_at(from, axis - lead, place.width);
    }
    r->out[0] = split_at(to, axis, place.width);
    return REMAT_OK;
}

/* Only the shape of its input counts. Columns of several blocks have no one offset. */
static remat_status rule_column(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0];
    struct remat_place place;
    bool split = place_of(f, x, &place);
    if (split && place.axis + 1 == shape_of(f, x)->rank && place.blocks > 1)
        return REMAT_OK;
    r->want[0] = *layout_of(f, x);
    if (split)
        r->out[0] = r->want[0];
    return REMAT_OK;
}

static remat_status rule_row_reduce(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0];
    const struct remat_shape *from = shape_of(f, x), *to = shape_of(f, r->node->outputs[0]);
    bool sums = r->node->op == REMAT_OP_row_sum;
    struct remat_place place;
    if (sums && passes_on(f, x))
        r->want[0] = r->out[0] = sum;
    if (!place_of(f, x, &place))
        return REMAT_OK;
    r->want[0] = *layout_of(f, x);
    r->out[0] = (struct remat_layout){sums ? REMAT_LAYOUT_SUM : REMAT_LAYOUT_MAXIMUM, 0};
    if (place.axis + 1 < from->rank)
        r->out[0] = split_at(to, place.axis, place.width);
    return REMAT_OK;
}

static remat_status rule_column_reduce(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0];
    const struct remat_shape *from = shape_of(f, x), *to = shape_of(f, r->node->outputs[0]);
    struct remat_place place;
    if (passes_on(f, x))
        r->want[0] = r->out[0] = sum;
    if (!place_of(f, x, &place))
        return REMAT_OK;
    r->want[0] = *layout_of(f, x);
    r->out[0] = place.axis + 1 == from->rank ? split_at(to, 0, place.width) : sum;
    return REMAT_OK;
}

static remat_status rule_reshape(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    struct remat_layout layout = *layout_of(f, x);
    struct remat_place place;
    if (passes_on(f, x) || layout.kind == REMAT_LAYOUT_SPLIT)
        r->want[0] = r->out[0] = layout;
    if (layout.kind != REMAT_LAYOUT_SPLIT ||
        remat_layout_place(shape_of(f, y), layout.run, f->ranks, &place))
        return REMAT_OK;
    int64_t after = 1; /* the dimension that ends a block */
    uint32_t d = shape_of(f, y)->rank - 1;
    while (d > 0 && (after *= shape_of(f, y)->dims[d]) < layout.run * f->ranks)
        d--;
    return refuse(f, y, d);
}

static remat_status rule_transpose(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    const struct remat_attribute *permutation = remat_node_attribute(r->node, "permutation");
    struct remat_place place;
    if (passes_on(f, x))
        r->want[0] = r->out[0] = sum;
    if (!place_of(f, x, &place))
        return REMAT_OK;
    uint32_t d = 0;
    while (permutation->ints[d] != place.axis)
        d++;
    r->want[0] = *layout_of(f, x);
    r->out[0] = split_at(shape_of(f, y), d, place.width);
    return REMAT_OK;
}

/* slice, pad: of whole blocks, where along the axis that is split. */
static remat_status rule_box(struct finder *f, const struct rule_of *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    const char *end_key = r->node->op == REMAT_OP_slice ? "end" : "length";
    int64_t begin = remat_node_int(r->node, "begin", 0), end = remat_node_int(r->node, end_key, 0);
    struct remat_place place;
    if (passes_on(f, x))
        r->want[0] = r->out[0] = sum;
    if (!place_of(f, x, &place))
        return REMAT_OK;
    int64_t block = f->ranks * place.width;
    if (place.axis == remat_node_int(r->node, "axis", 0) && (begin % block || end % block))
        return REMAT_OK;
    r->want[0] = *layout_of(f, x);
    r->out[0] = split_at(shape_of(f, y), place.axis, place.width);
    return REMAT_OK;
}

static remat_status rule_concat(struct finder *f, const struct rule_of *r)
{
    const struct remat_node_info *node = r->node;
    uint32_t k = find_split(f, node), sums = 0;
    bool fits = k != REMAT_NONE;
    struct remat_place place = {0};
    if (fits)
        (void)place_of(f, node->inputs[k], &place);
    for (uint32_t i = 0; i < node->input_count; i++) {
        fits =
            fits && shape_of(f, node->inputs[i])->dims[place.axis] % (f->ranks * place.width) == 0;
        sums += passes_on(f, node->inputs[i]);
    }
    if (!fits && sums < node->input_count)
        return REMAT_OK;
    for (uint32_t i = 0; i < node->input_count; i++)
        r->want[i] = fits ? split_at(shape_of(f, node->inputs[i]), place.axis, place.width) : sum;
    r->out[0] = fits ? split_at(shape_of(f, node->outputs[0]), place.axis, place.width) : sum;
    return REMAT_OK;
}

/* --- products --- */

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What becomes of the last axis of a product, as far as it keeps its length. */
struct columns {
    int64_t length, block; /* block: divides where it is cut */
    bool are_classes;      /* they are counted, as ids are */
};

static void look_at_readers(struct finder *f, remat_value v, struct columns *c)
{
    for (uint32_t u = f->reader[v.i]; u != REMAT_NONE; u = f->next[u]) {
        const struct remat_node_info *node = &f->graph->nodes[f->user[u]];
        const struct remat_shape *from = shape_of(f, v), *to = shape_of(f, node->outputs[0]);
        c->are_classes |= node->op == REMAT_OP_column;
        if (node->op == REMAT_OP_slice && remat_node_int(node, "axis", 0) == from->rank - 1)
            c->block = divisor(divisor(c->block, remat_node_int(node, "begin", 0)),
                               remat_node_int(node, "end", 0));
        bool same = to->rank > 0 && to->dims[to->rank - 1] == c->length;
        bool follows = node->op == REMAT_OP_reshape || node->op == REMAT_OP_cast ||
                       (node->op == REMAT_OP_add && remat_shape_equal(from, to));
        if (same && follows && remat_is_early(node->phase) &&
            f->looked[node->outputs[0].i] != f->look) {
            f->looked[node->outputs[0].i] = f->look;
            REMAT_PUSH(f->arena, &f->to_look_at, node->outputs[0]);
        }
    }
}

static void look_at_columns(struct finder *f, remat_value v, struct columns *c)
{
    f->look++;
    look_at_readers(f, v, c);
    while (f->to_look_at.count > 0)
        look_at_readers(f, f->to_look_at.items[--f->to_look_at.count], c);
}

static remat_status refuse_classes(const struct finder *f, remat_value v, uint32_t dimension)
{
    return refuse_blocks(f, v, dimension, shape_of(f, v)->dims[dimension],
                         ": remat-graph --make-vocab-size-divisible-by pads it");
}

/* Splits the columns of a product with an open parameter, b. */
static remat_status begin_columns(struct finder *f, const struct rule_of *r, uint32_t b,
                                  uint32_t b_axis)
{
    remat_value y = r->node->outputs[0], w = r->node->inputs[b];
    const struct remat_shape *to = shape_of(f, y);
    uint32_t n = (uint32_t)(r->node - f->graph->nodes);
    struct columns c = {to->dims[to->rank - 1], to->dims[to->rank - 1], false};
    if (!remat_is_early(r->node->phase))
        return REMAT_OK;
    look_at_columns(f, y, &c);
    if (!c.are_classes && f->handed[n])
        return REMAT_OK;
    if (c.block % f->ranks)
        return c.are_classes ? refuse_classes(f, w, b_axis)
                             : refuse_blocks(f, w, b_axis, c.block, "");
    r->want[b] = split_at(shape_of(f, w), b_axis, c.block / f->ranks);
    r->out[0] = split_at(to, to->rank - 1, c.block / f->ranks);
    return REMAT_OK;
}

static remat_status rule_matmul(struct finder *f, const struct rule_of *r)
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
    bool has_a = place_of(f, a, &p), has_b = place_of(f, b, &q);
    if ((has_a && p.axis == a_k) || (has_b && q.axis == b_k)) {
        int64_t width = has_a && p.axis == a_k ? p.width : q.width;
        want[0] = split_at(as, a_k, width);
        want[1] = split_at(bs, b_k, width);
        *out = sum;
    } else if ((has_a && p.axis + 2 < rank) || (has_b && q.axis + 2 < rank)) {
        const struct remat_place *by = has_a && p.axis + 2 < rank ? &p : &q;
        for (uint32_t k = 0; k < 2; k++)
            if ((k ? bs : as)->dims[by->axis] > 1)
                want[k] = split_at(k ? bs : as, by->axis, by->width);
        *out = split_at(to, by->axis, by->width);
    } else if (has_a && p.axis == a_m) {
        want[0] = *layout_of(f, a);
        *out = split_at(to, rank - 2, p.width);
    } else if (has_b && q.axis == b_n) {
        want[1] = *layout_of(f, b);
        *out = split_at(to, rank - 1, q.width);
    } else if (layout_of(f, b)->kind == REMAT_LAYOUT_OPEN) {
        REMAT_CHECK(begin_columns(f, r, first + 1, b_n));
    }
    if (first && out->kind == REMAT_LAYOUT_SUM && !passes_on(f, r->node->inputs[0]))
        want[0] = want[1] = *out = whole; /* each rank would add all of it */
    if (first)
        r->want[0] = *out;
    return REMAT_OK;
}

/* Heads, axis 2 of all but the logs of sums of exponentials; each rank has the key heads of its
 * query heads. */
static remat_status rule_attention(struct finder *f, const struct rule_of *r)
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
            return refuse(f, v, axis);
        (is_output ? r->out - node->input_count : r->want)[k] =
            split_at(shape, axis, shape->dims[axis] / f->ranks);
    }
    return REMAT_OK;
}

/* --- tables --- */

/* Its rows are also the head's. */
static bool makes_logits(struct finder *f, remat_value table)
{
    struct columns c = {shape_of(f, table)->dims[0], 1, false};
    for (uint32_t u = f->reader[table.i]; u != REMAT_NONE; u = f->next[u]) {
        const struct remat_node_info *node = &f->graph->nodes[f->user[u]];
        if (node->op == REMAT_OP_matmul && remat_is_early(node->phase))
            look_at_columns(f, node->outputs[0], &c);
    }
    return c.are_classes;
}

static remat_status rule_embedding(struct finder *f, const struct rule_of *r)
{
    remat_value table = r->node->inputs[0];
    const struct remat_shape *shape = shape_of(f, table), *to = shape_of(f, r->node->outputs[0]);
    struct remat_layout *layout = layout_of(f, table);
    struct remat_place place;
    bool divides = shape->dims[0] % f->ranks == 0;
    if (layout->kind == REMAT_LAYOUT_OPEN && !divides && makes_logits(f, table))
        return refuse_classes(f, table, 0);
    if (layout->kind == REMAT_LAYOUT_OPEN && divides) {
        r->want[0] = split_at(shape, 0, shape->dims[0] / f->ranks);
        r->out[0] = sum;
    } else if (place_of(f, table, &place) && (place.axis == 1 || place.blocks == 1)) {
        r->want[0] = *layout;
        r->out[0] = place.axis == 0 ? sum : split_at(to, to->rank - 1, place.width);
    }
    return REMAT_OK;
}

/* The layout of the table that was read by the same ids. */
static struct remat_layout find_table(struct finder *f, const struct remat_node_info *node)
{
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        const struct remat_node_info *reads = &f->graph->nodes[n];
        if (reads->op == REMAT_OP_embedding && reads->inputs[1].i == node->inputs[1].i &&
            remat_shape_equal(shape_of(f, reads->inputs[0]), shape_of(f, node->outputs[0])))
            return *layout_of(f, reads->inputs[0]);
    }
    return whole;
}

static remat_status rule_embedding_backward(struct finder *f, const struct rule_of *r)
{
    const struct remat_node_info *node = r->node;
    bool adds = node->op == REMAT_OP_embedding_accumulate;
    const struct remat_shape *table = shape_of(f, node->outputs[0]);
    const struct remat_shape *dout = shape_of(f, node->inputs[adds]);
    struct remat_layout layout = adds ? *layout_of(f, node->inputs[0]) : find_table(f, node);
    struct remat_place place;
    if (layout.kind != REMAT_LAYOUT_SPLIT ||
        !remat_layout_place(table, layout.run, f->ranks, &place) ||
        (place.axis == 0 && place.blocks > 1))
        return REMAT_OK;
    if (adds)
        r->want[0] = layout;
    if (place.axis == 1)
        r->want[adds] = split_at(dout, dout->rank - 1, place.width);
    r->out[0] = layout;
    return REMAT_OK;
}

/* --- what layers hand on --- */

struct tree { /* of the nodes that every way to the loss passes next */
    uint32_t *next, *depth;
};

static uint32_t common(const struct tree *t, uint32_t a, uint32_t b)
{
    while (a != b)
        if (t->depth[a] >= t->depth[b])
            a = t->next[a];
        else
            b = t->next[b];
    return a;
}

static void find_handed(struct finder *f)
{
    const struct remat_graph *graph = f->graph;
    struct tree t;
    uint32_t loss = graph->output_count ? remat_producer(graph, graph->outputs[0]).i : REMAT_NONE;
    REMAT_NEW(f->arena, f->handed, graph->node_count);
    REMAT_NEW(f->arena, t.next, graph->node_count);
    REMAT_NEW(f->arena, t.depth, graph->node_count);
    if (loss == REMAT_NONE)
        return;
    for (uint32_t n = 0; n < graph->node_count; n++)
        t.next[n] = REMAT_NONE;
    t.depth[loss] = 1;
    t.next[loss] = loss;
    for (uint32_t n = loss + 1; n-- > 0;) {
        if (t.next[n] == REMAT_NONE)
            continue; /* the loss does not need it */
        if (n != loss)
            t.depth[n] = t.depth[t.next[n]] + 1;
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            uint32_t from = remat_producer(graph, graph->nodes[n].inputs[k]).i;
            if (from != REMAT_NONE)
                t.next[from] = t.next[from] == REMAT_NONE ? n : common(&t, t.next[from], n);
        }
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        uint32_t at = REMAT_NONE;
        if (graph->values[v].role != REMAT_ROLE_INPUT)
            continue;
        for (uint32_t u = f->reader[v]; u != REMAT_NONE; u = f->next[u])
            if (f->user[u] <= loss && t.next[f->user[u]] != REMAT_NONE)
                at = at == REMAT_NONE ? f->user[u] : common(&t, at, f->user[u]);
        for (; at != REMAT_NONE && !f->handed[at]; at = t.next[at])
            f->handed[at] = true;
    }
}

/* --- the pass over the nodes --- */

static void list_readers(struct finder *f)
{
    const struct remat_graph *graph = f->graph;
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].input_count;
    REMAT_NEW(f->arena, f->reader, graph->value_count);
    REMAT_NEW(f->arena, f->next, count);
    REMAT_NEW(f->arena, f->user, count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        f->reader[v] = REMAT_NONE;
    count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            uint32_t v = graph->nodes[n].inputs[k].i;
            f->user[count] = n;
            f->next[count] = f->reader[v];
            f->reader[v] = count++;
        }
}

static bool is_open(const struct remat_value_info *info)
{
    return remat_is_none(info->node.i) && info->dtype != REMAT_I32 &&
           (info->role == REMAT_ROLE_PARAMETER || info->role == REMAT_ROLE_OPTIMIZER_STATE ||
            info->role == REMAT_ROLE_GRADIENT);
}

static remat_status (*const rules[])(struct finder *, const struct rule_of *) = {
#define REMAT_LAYOUT_RULE(name) [REMAT_RULE_##name] = rule_##name,
#include "layout_rules.def"
#undef REMAT_LAYOUT_RULE
};

/* A view or cast of an open parameter stays open. */
static bool stays_open(struct finder *f, const struct remat_node_info *node)
{
    bool keeps = node->op == REMAT_OP_reshape || node->op == REMAT_OP_cast;
    if (!keeps || layout_of(f, node->inputs[0])->kind != REMAT_LAYOUT_OPEN)
        return false;
    f->root[node->outputs[0].i] = f->root[node->inputs[0].i];
    return true;
}

/* An open parameter becomes what its first reader wants, if it can be. */
static remat_status settle(struct finder *f, remat_value v, struct remat_layout want)
{
    const struct remat_value_info *info = &f->graph->values[f->root[v.i]];
    struct remat_place place;
    struct remat_layout *layout = layout_of(f, v);
    if (layout->kind != REMAT_LAYOUT_OPEN)
        return REMAT_OK;
    if (want.kind == REMAT_LAYOUT_SPLIT &&
        !remat_layout_place(&info->shape, want.run, f->ranks, &place))
        return refuse(f, (remat_value){f->root[v.i]}, info->shape.rank - 1);
    *layout = want;
    return REMAT_OK;
}

static remat_value find_parameter(const struct remat_graph *graph, const char *gradient)
{
    size_t length = strlen(gradient);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        size_t own = strlen(info->name);
        if (info->role == REMAT_ROLE_PARAMETER && remat_is_none(info->node.i) &&
            own + 5 == length && memcmp(info->name, gradient, own) == 0 &&
            strcmp(gradient + own, ".grad") == 0)
            return (remat_value){v};
    }
    return REMAT_NO_VALUE;
}

static remat_status visit(struct finder *f, uint32_t n)
{
    const struct remat_node_info *node = &f->graph->nodes[n];
    struct remat_layout *out, *want;
    REMAT_NEW(f->arena, out, node->output_count);
    REMAT_NEW(f->arena, want, node->input_count);
    f->layouts->wanted[n] = want;
    if (stays_open(f, node))
        return REMAT_OK;
    for (uint32_t k = 0; k < node->input_count; k++)
        want[k] = whole;
    for (uint32_t k = 0; k < node->output_count; k++)
        out[k] = whole;
    REMAT_CHECK(rules[remat_op_info(node->op)->layout](f, &(struct rule_of){node, want, out}));
    for (uint32_t k = 0; k < node->input_count; k++)
        REMAT_CHECK(settle(f, node->inputs[k], want[k]));
    for (uint32_t k = 0; k < node->output_count; k++) {
        const struct remat_value_info *info = &f->graph->values[node->outputs[k].i];
        remat_value parameter = info->role == REMAT_ROLE_GRADIENT
                                    ? find_parameter(f->graph, info->name)
                                    : REMAT_NO_VALUE;
        f->layouts->made[node->outputs[k].i] = f->layouts->of[node->outputs[k].i] = out[k];
        if (!remat_is_none(parameter.i))
            f->layouts->of[node->outputs[k].i] = *layout_of(f, parameter);
    }
    return REMAT_OK;
}

/* Those that stayed open are whole, and so is what was left open of them. */
static remat_status close_all(struct finder *f)
{
    struct remat_place place;
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        if (f->layouts->of[f->root[v]].kind == REMAT_LAYOUT_OPEN)
            f->layouts->of[f->root[v]] = whole;
    for (remat_value v = {0}; v.i < f->graph->value_count; v.i++) {
        struct remat_layout layout = f->layouts->of[f->root[v.i]];
        if (f->root[v.i] == v.i)
            continue;
        if (layout.kind == REMAT_LAYOUT_SPLIT &&
            !remat_layout_place(shape_of(f, v), layout.run, f->ranks, &place))
            return refuse(f, v, shape_of(f, v)->rank ? shape_of(f, v)->rank - 1 : 0);
        f->layouts->of[v.i] = f->layouts->made[v.i] = layout;
    }
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        for (uint32_t k = 0; k < f->graph->nodes[n].input_count; k++)
            if (f->layouts->wanted[n][k].kind == REMAT_LAYOUT_OPEN)
                f->layouts->wanted[n][k] = f->layouts->of[f->graph->nodes[n].inputs[k].i];
    return REMAT_OK;
}

remat_status remat_layouts_find(struct remat_arena *arena, const struct remat_graph *graph,
                                const char *axis, struct remat_layouts *out)
{
    struct finder f = {.arena = arena, .graph = graph, .layouts = out, .axis = axis};
    f.ranks = remat_mesh_size(&graph->mesh, axis);
    f.uses = remat_count_uses(arena, graph);
    REMAT_NEW(arena, f.root, graph->value_count);
    REMAT_NEW(arena, f.looked, graph->value_count);
    REMAT_NEW(arena, out->of, graph->value_count);
    REMAT_NEW(arena, out->made, graph->value_count);
    REMAT_NEW(arena, out->wanted, graph->node_count);
    list_readers(&f);
    find_handed(&f);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        f.root[v] = v;
        out->of[v] = is_open(&graph->values[v]) ? (struct remat_layout){0} : whole;
        out->made[v] = whole;
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (remat_is_none(remat_producer(graph, graph->outputs[o]).i))
            out->of[graph->outputs[o].i] = whole;
    for (uint32_t n = 0; n < graph->node_count; n++)
        REMAT_CHECK(visit(&f, n));
    REMAT_CHECK(close_all(&f));
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (remat_is_none(graph->values[v].node.i))
            out->made[v] = out->of[v];
    return REMAT_OK;
}
