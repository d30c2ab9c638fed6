/* SPDX-License-Identifier: Apache-2.0 */
/* Divides what layers compute among the ranks along "tp" (layout.h says how), and inserts the
 * transfers that bring values from the layout in which they are computed to those in which they are
 * read. A node becomes itself on this rank's part of its operands. What is read in another layout
 * by several nodes is transferred once, before the first of them.
 *
 * An unfinished sum is exchanged, added in rank order in f32 and gathered; a small one is gathered
 * from all ranks and added by each. */
#include "builder.h"
#include "cast.h"
#include "layout.h"
#include "rebuild.h"
#include "transfers.h"

#include <inttypes.h>

#define AXIS        "tp"
#define SMALL_BYTES 65536 /* of an unfinished value: latency is most of its transfer */

struct divider {
    struct remat_rebuild r;
    struct remat_builder b;
    struct remat_layouts layouts;
    int64_t ranks;
    struct reading { /* in another layout than it is computed in */
        struct remat_layout layout;
        remat_value value;
        struct reading *next;
    } * *readings;          /* by old value, the last one made first */
    remat_value coordinate; /* REMAT_NO_VALUE: nothing has needed it yet */
    remat_value number;     /* the coordinate in f32 */
    /* Of attention with dropout, by entry of the batch: its number, i32 [1], and its random state.
     */
    remat_value entries[REMAT_LAYOUT_ENTRIES_MAX], states[REMAT_LAYOUT_ENTRIES_MAX];
    remat_value rng;     /* that they are of */
    remat_value **parts; /* by old value: of each entry, as attention made it; NULL: it did not */
};

/* --- the rank's number --- */

static remat_value coordinate(struct divider *d)
{
    if (!remat_is_none(d->coordinate.i))
        return d->coordinate;
    d->coordinate = remat_build_coordinate(&d->b, AXIS);
    /* The session writes it before init, which fills parts. */
    d->r.to->values[d->coordinate.i].initializer = REMAT_INIT_NONE;
    return d->coordinate;
}

/* f32 [1]; only comparisons read an i32. */
static remat_value number(struct divider *d)
{
    struct remat_builder *b = &d->b;
    remat_value sum = REMAT_NO_VALUE;
    if (!remat_is_none(d->number.i))
        return d->number;
    for (int64_t q = 1; q < d->ranks; q++) {
        remat_value is =
            remat_build2(b, REMAT_OP_equal, coordinate(d), remat_build_constant(b, (double)q));
        remat_value term = remat_build2(b, REMAT_OP_mul, is, remat_build_constant(b, (double)q));
        sum = q == 1 ? term : remat_build2(b, REMAT_OP_add, sum, term);
    }
    return d->number = sum;
}

/* The first of this rank's `count`, f32 [1]. */
static remat_value first_of(struct divider *d, int64_t count)
{
    return remat_build2(&d->b, REMAT_OP_mul, number(d), remat_build_constant(&d->b, (double)count));
}

/* --- from layout to layout --- */

static remat_value copy(struct divider *d, remat_value x)
{
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    return remat_build(&d->b, REMAT_OP_concat, &x, 1, &axis, 1, NULL);
}

/* [first, second, third] to [second, first, third], copied. */
static remat_value swap(struct divider *d, remat_value x, int64_t first, int64_t second,
                        int64_t third)
{
    const struct remat_attribute order =
        remat_attribute_ints("permutation", (int64_t[]){1, 0, 2}, 3);
    x = remat_build_reshape(&d->b, x, (int64_t[]){first, second, third}, 3);
    return copy(d, remat_build(&d->b, REMAT_OP_transpose, &x, 1, &order, 1, NULL));
}

/* Of the rows of [ranks, ..], in their order. */
static remat_value combine(struct divider *d, remat_value rows, uint8_t kind)
{
    struct remat_builder *b = &d->b;
    remat_value all = REMAT_NO_VALUE;
    for (int64_t q = 0; q < d->ranks; q++) {
        remat_value row = remat_build_cast(b, remat_build_row(b, rows, q), REMAT_F32);
        uint16_t op = kind == REMAT_LAYOUT_MAXIMUM ? REMAT_OP_maximum : REMAT_OP_add;
        all = q == 0 ? row : remat_build2(b, op, all, row);
    }
    return all;
}

static remat_value finish(struct divider *d, remat_value x, uint8_t kind)
{
    struct remat_builder *b = &d->b;
    const struct remat_value_info info = b->graph->values[x.i];
    int64_t elements = remat_shape_elements(&info.shape);
    const struct remat_shape all = {2, {d->ranks, elements}};
    bool is_small = kind == REMAT_LAYOUT_MAXIMUM || remat_value_bytes(&info) <= SMALL_BYTES;
    x = remat_build_reshape(b, x, &elements, 1);
    remat_value rows =
        is_small ? remat_build_gather(b, AXIS, x, &all) : remat_build_exchange(b, AXIS, x);
    x = remat_build_cast(b, combine(d, rows, kind), info.dtype);
    int64_t part = remat_shape_elements(&b->graph->values[x.i].shape);
    if (is_small)
        return remat_build_reshape(b, x, info.shape.dims, info.shape.rank);
    x = remat_build_reshape(b, x, &part, 1);
    return remat_build_gather(b, AXIS, x, &info.shape);
}

/* From this rank's part. */
static remat_value join(struct divider *d, remat_value x, const struct remat_shape *whole,
                        int64_t run)
{
    int64_t elements = remat_shape_elements(whole), part = elements / d->ranks;
    bool is_one_run = run == part;
    const struct remat_shape rows = {2, {d->ranks, part}};
    x = remat_build_reshape(&d->b, x, &part, 1);
    x = remat_build_gather(&d->b, AXIS, x, is_one_run ? whole : &rows);
    if (is_one_run)
        return x;
    x = swap(d, x, d->ranks, part / run, run);
    return remat_build_reshape(&d->b, x, whole->dims, whole->rank);
}

/* This rank's part. */
static remat_value take(struct divider *d, remat_value x, struct remat_layout layout)
{
    const struct remat_shape whole = d->b.graph->values[x.i].shape;
    const struct remat_shape part = remat_layout_shape(&whole, layout, d->ranks);
    const struct remat_attribute count = remat_attribute_int("count", d->ranks);
    int64_t elements = remat_shape_elements(&whole), runs = elements / (d->ranks * layout.run);
    if (runs > 1)
        x = swap(d, x, runs, d->ranks, layout.run);
    x = remat_build_reshape(&d->b, x, &elements, 1);
    const remat_value inputs[] = {x, coordinate(d)};
    x = remat_build(&d->b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    return remat_build_reshape(&d->b, x, part.dims, part.rank);
}

static bool equal(struct remat_layout a, struct remat_layout b)
{
    return a.kind == b.kind && a.run == b.run;
}

static remat_value convert(struct divider *d, remat_value old, struct remat_layout from,
                           struct remat_layout to, uint32_t number);

/* The value in this layout, for a reader. */
static remat_value read_as(struct divider *d, remat_value old, struct remat_layout layout)
{
    struct remat_layout from = d->layouts.of[old.i];
    uint32_t number = 0;
    if (equal(from, layout))
        return d->r.values[old.i];
    for (struct reading *r = d->readings[old.i]; r; r = r->next, number++)
        if (equal(r->layout, layout))
            return r->value;
    remat_value value = convert(d, old, from, layout, number);
    struct reading *made = remat_array(d->r.arena, 1, sizeof *made);
    *made = (struct reading){layout, value, d->readings[old.i]};
    d->readings[old.i] = made;
    return value;
}

/* Into its `number`-th other layout; a part by way of the whole, which others may read. */
static remat_value convert(struct divider *d, remat_value old, struct remat_layout from,
                           struct remat_layout to, uint32_t number)
{
    static const struct remat_layout whole = {REMAT_LAYOUT_WHOLE, 0};
    const struct remat_value_info *info = &d->r.from->values[old.i];
    remat_value x = d->r.values[old.i];
    if (to.kind == REMAT_LAYOUT_SPLIT && from.kind != REMAT_LAYOUT_WHOLE)
        x = read_as(d, old, whole);
    d->b.prefix = to.kind == REMAT_LAYOUT_WHOLE
                      ? REMAT_FORMAT(d->r.arena, "%s.whole", info->name)
                      : REMAT_FORMAT(d->r.arena, "%s.split_%" PRIu32, info->name, number);
    d->b.counter = 0;
    if (to.kind == REMAT_LAYOUT_SPLIT)
        return take(d, x, to);
    return from.kind == REMAT_LAYOUT_SPLIT ? join(d, x, &info->shape, from.run)
                                           : finish(d, x, from.kind);
}

/* --- nodes --- */

static struct remat_shape shape_here(const struct divider *d, remat_value old)
{
    return remat_layout_shape(&d->r.from->values[old.i].shape, d->layouts.made[old.i], d->ranks);
}

/* The attributes that name lengths, of this rank's part. */
static const struct remat_attribute *attributes_here(struct divider *d,
                                                     const struct remat_node_info *node)
{
    struct remat_attribute *out =
        remat_copy(d->r.arena, node->attributes, node->attribute_count, sizeof *node->attributes);
    remat_value y = node->outputs[0];
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_shape *shape = remat_array(d->r.arena, 1, sizeof *shape);
    struct remat_place place;
    if (layout.kind != REMAT_LAYOUT_SPLIT ||
        !remat_layout_place(&d->r.from->values[y.i].shape, layout.run, d->ranks, &place))
        return out;
    *shape = shape_here(d, y);
    bool cut = remat_node_int(node, "axis", -1) == place.axis;
    for (uint32_t k = 0; k < node->attribute_count; k++) {
        const char *key = out[k].key;
        bool is_length =
            strcmp(key, "begin") == 0 || strcmp(key, "end") == 0 || strcmp(key, "length") == 0;
        if (strcmp(key, "shape") == 0)
            out[k].ints = shape->dims;
        else if ((is_length && cut) || (strcmp(key, "rows") == 0 && place.axis == 0))
            out[k].i /= d->ranks;
    }
    return out;
}

/* Lets x, in the layout that was found for it, stand for an old value. */
static void stand_for(struct divider *d, remat_value old, remat_value x)
{
    remat_rebuild_replace(&d->r, old, x);
    d->r.to->values[x.i].shape = shape_here(d, old);
}

/* The node as it is, on other operands. */
static void copy_node(struct divider *d, const struct remat_node_info *old, remat_value *inputs)
{
    struct remat_node_info node = *old;
    remat_value *outputs;
    REMAT_NEW(d->r.arena, outputs, old->output_count);
    for (uint32_t k = 0; k < old->output_count; k++) {
        struct remat_value_info info = d->r.from->values[old->outputs[k].i];
        info.shape = shape_here(d, old->outputs[k]);
        outputs[k] = remat_graph_add_value(d->r.arena, d->r.to, &info);
        d->r.values[old->outputs[k].i] = outputs[k];
    }
    node.inputs = inputs;
    node.outputs = outputs;
    node.attributes = attributes_here(d, old);
    node.origin_group = remat_rebuild_group(&d->r, old->origin_group);
    remat_graph_append_node(d->r.arena, d->r.to, &node);
}

/* 1 for the rows of other ranks' ids, else 0, in f32 with an axis of 1 behind. */
static remat_value others(struct divider *d, remat_value ids, int64_t count)
{
    struct remat_builder *b = &d->b;
    struct remat_shape shape = b->graph->values[ids.i].shape;
    remat_value first = first_of(d, count);
    remat_value last =
        remat_build2(b, REMAT_OP_add, first, remat_build_constant(b, (double)(count - 1)));
    shape.dims[shape.rank++] = 1;
    ids = remat_build_reshape(b, ids, shape.dims, shape.rank);
    return remat_build2(b, REMAT_OP_maximum, remat_build2(b, REMAT_OP_less, ids, first),
                        remat_build2(b, REMAT_OP_less, last, ids));
}

static remat_value without_others(struct divider *d, remat_value x, remat_value ids, int64_t count)
{
    struct remat_builder *b = &d->b;
    remat_value zero = remat_build_constant(b, 0), wide = remat_build_cast(b, x, REMAT_F32);
    return remat_build_like(b, remat_build3(b, REMAT_OP_select, others(d, ids, count), zero, wide),
                            x);
}

static remat_value own_ids(struct divider *d, remat_value ids, int64_t rows)
{
    const struct remat_attribute count = remat_attribute_int("count", rows);
    const remat_value inputs[] = {ids, coordinate(d)};
    return remat_build(&d->b, REMAT_OP_own_ids, inputs, 2, &count, 1, NULL);
}

static bool splits_rows(const struct divider *d, remat_value table, struct remat_layout layout)
{
    struct remat_place place;
    return layout.kind == REMAT_LAYOUT_SPLIT &&
           remat_layout_place(&d->r.from->values[table.i].shape, layout.run, d->ranks, &place) &&
           place.axis == 0;
}

/* Rows that other ranks have are 0, so that all ranks' results add up. */
static void look_up(struct divider *d, const struct remat_node_info *node, remat_value *inputs)
{
    remat_value ids = inputs[1], y = node->outputs[0];
    int64_t rows = d->b.graph->values[inputs[0].i].shape.dims[0];
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    d->b.counter = 0;
    inputs[1] = own_ids(d, ids, rows);
    remat_value found = remat_build(&d->b, REMAT_OP_embedding, inputs, 2, NULL, 0, NULL);
    stand_for(d, y, without_others(d, found, ids, rows));
}

/* dout of other ranks' ids is added as 0. */
static void scatter(struct divider *d, const struct remat_node_info *node, remat_value *inputs)
{
    uint32_t k = node->op == REMAT_OP_embedding_accumulate;
    struct remat_shape table = shape_here(d, node->outputs[0]);
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[node->outputs[0].i].name);
    d->b.counter = 0;
    remat_value ids = inputs[k + 1];
    inputs[k + 1] = own_ids(d, ids, table.dims[0]);
    inputs[k] = without_others(d, inputs[k], ids, table.dims[0]);
    copy_node(d, node, inputs);
}

/* --- attention with dropout --- */

/* A constant, i32 [1]. */
static remat_value entry(struct divider *d, uint32_t number)
{
    if (!remat_is_none(d->entries[number].i))
        return d->entries[number];
    const char *name = REMAT_FORMAT(d->r.arena, "mesh." AXIS ".%u", number);
    const struct remat_shape one = {1, {1}};
    remat_value x = remat_add_input(&d->b, name, REMAT_I32, one, REMAT_ROLE_CONSTANT);
    d->r.to->values[x.i].initializer = REMAT_INIT_CONSTANT;
    d->r.to->values[x.i].init_mean = number;
    return d->entries[number] = x;
}

static remat_value part_number(struct divider *d, remat_value x, int64_t count, remat_value y)
{
    const struct remat_attribute attribute = remat_attribute_int("count", count);
    const remat_value inputs[] = {x, y};
    return remat_build(&d->b, REMAT_OP_part_number, inputs, 2, &attribute, 1, NULL);
}

/* The state with which an entry's heads of this rank draw what they do in the whole: they are a
 * microbatch of one entry, of which each rank has one part. */
static remat_value make_state(struct divider *d, remat_value rng, int64_t entries, uint32_t number)
{
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    remat_value part = remat_build_slice(&d->b, rng, 0, 3, 4);
    if (entries > 1)
        part = part_number(d, part, entries, entry(d, number));
    part = part_number(d, part, d->ranks, coordinate(d));
    const remat_value words[] = {remat_build_slice(&d->b, rng, 0, 0, 3), part};
    return remat_build(&d->b, REMAT_OP_concat, words, 2, &axis, 1, NULL);
}

/* The first layer makes it for all, so it has the top scope. */
static remat_value random_state(struct divider *d, remat_value rng, int64_t entries,
                                uint32_t number)
{
    const remat_scope_id scope = d->b.scope;
    if (d->rng.i == rng.i && !remat_is_none(d->states[number].i))
        return d->states[number];
    if (d->rng.i != rng.i)
        for (uint32_t e = 0; e < REMAT_LAYOUT_ENTRIES_MAX; e++)
            d->states[e] = REMAT_NO_VALUE;
    d->rng = rng;
    d->b.scope = REMAT_TOP;
    d->states[number] = make_state(d, rng, entries, number);
    d->b.scope = scope;
    return d->states[number];
}

/* The logs of sums, which only the backward pass reads, are never joined. */
static remat_value entry_of(struct divider *d, remat_value old, remat_value x, int64_t entries,
                            uint32_t number)
{
    if (d->parts[old.i])
        return d->parts[old.i][number];
    return entries > 1 ? remat_build_slice(&d->b, x, 0, number, number + 1) : x;
}

/* The entries of a batch one by one. */
static void attend(struct divider *d, const struct remat_node_info *node, const remat_value *inputs)
{
    struct remat_builder *b = &d->b;
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    int64_t entries = b->graph->values[inputs[0].i].shape.dims[0];
    uint32_t count = node->input_count;
    remat_value own[8], made[3], *parts[3];
    for (uint32_t k = 0; k < node->output_count; k++)
        parts[k] = remat_array(d->r.arena, (size_t)entries, sizeof **parts);
    for (uint32_t e = 0; e < entries; e++) {
        b->prefix =
            REMAT_FORMAT(d->r.arena, "%s.entry_%u", d->r.from->values[node->outputs[0].i].name, e);
        b->counter = 0;
        for (uint32_t k = 0; k + 1 < count; k++)
            own[k] = entry_of(d, node->inputs[k], inputs[k], entries, e);
        own[count - 1] = random_state(d, inputs[count - 1], entries, e);
        remat_build(b, node->op, own, count, node->attributes, node->attribute_count, made);
        for (uint32_t k = 0; k < node->output_count; k++)
            parts[k][e] = made[k];
    }
    if (node->op == REMAT_OP_attention)
        d->parts[node->outputs[1].i] = parts[1];
    for (uint32_t k = 0; k < node->output_count; k++)
        stand_for(d, node->outputs[k],
                  entries > 1
                      ? remat_build(b, REMAT_OP_concat, parts[k], (uint32_t)entries, &axis, 1, NULL)
                      : parts[k][0]);
}

/* Columns of this rank begin where those of the ranks before it end. */
static void count_columns(struct divider *d, const struct remat_node_info *node,
                          remat_value *inputs)
{
    remat_value y = node->outputs[0];
    const struct remat_shape *shape = &d->r.from->values[y.i].shape;
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_place place;
    if (layout.kind != REMAT_LAYOUT_SPLIT ||
        !remat_layout_place(shape, layout.run, d->ranks, &place) || place.axis + 1 < shape->rank) {
        copy_node(d, node, inputs);
        return;
    }
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    d->b.counter = 0;
    remat_value first = first_of(d, place.width);
    remat_value column = remat_build1(&d->b, REMAT_OP_column, inputs[0]);
    stand_for(d, y, remat_build2(&d->b, REMAT_OP_add, column, first));
}

/* A gradient has its parameter's layout. */
static void settle_gradient(struct divider *d, remat_value old)
{
    struct remat_layout made = d->layouts.made[old.i], wanted = d->layouts.of[old.i];
    const struct remat_value_info *info = &d->r.from->values[old.i];
    remat_value x = d->r.values[old.i];
    if (equal(made, wanted))
        return;
    d->r.to->values[x.i].name = REMAT_FORMAT(d->r.arena, "%s.term", info->name);
    d->r.to->values[x.i].role = REMAT_ROLE_ACTIVATION;
    d->layouts.of[old.i] = made;
    x = read_as(d, old, wanted);
    d->layouts.of[old.i] = wanted;
    d->r.to->values[x.i].name = info->name;
    d->r.to->values[x.i].role = info->role;
    d->r.values[old.i] = x;
}

/* Attention with dropout, in parts. */
static bool drops_heads(const struct divider *d, const struct remat_node_info *node)
{
    bool attends = node->op == REMAT_OP_attention || node->op == REMAT_OP_attention_backward;
    return attends && remat_node_number(node, "p") != 0 &&
           d->layouts.made[node->outputs[0].i].kind == REMAT_LAYOUT_SPLIT;
}

static void divide_node(struct divider *d, uint32_t n)
{
    const struct remat_node_info *node = &d->r.from->nodes[n];
    remat_value *inputs = remat_array(d->r.arena, node->input_count, sizeof *inputs);
    bool reads_table = node->op == REMAT_OP_embedding;
    bool adds_rows =
        node->op == REMAT_OP_embedding_backward || node->op == REMAT_OP_embedding_accumulate;
    d->b.scope = node->scope;
    d->b.phase = node->phase;
    for (uint32_t k = 0; k < node->input_count; k++)
        inputs[k] = read_as(d, node->inputs[k], d->layouts.wanted[n][k]);
    if (reads_table && splits_rows(d, node->inputs[0], d->layouts.wanted[n][0]))
        look_up(d, node, inputs);
    else if (adds_rows && splits_rows(d, node->outputs[0], d->layouts.made[node->outputs[0].i]))
        scatter(d, node, inputs);
    else if (drops_heads(d, node))
        attend(d, node, inputs);
    else if (node->op == REMAT_OP_column)
        count_columns(d, node, inputs);
    else
        copy_node(d, node, inputs);
    for (uint32_t k = 0; k < node->output_count; k++)
        settle_gradient(d, node->outputs[k]);
}

/* --- the whole --- */

/* Parameters, and values that are named after them. */
static void divide_inputs(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (uint32_t v = 0; v < from->value_count; v++) {
        struct remat_layout layout = d->layouts.of[v];
        if (!remat_is_none(from->values[v].node.i) || layout.kind != REMAT_LAYOUT_SPLIT)
            continue;
        (void)coordinate(d); /* initial values need it */
        struct remat_value_info *here = &d->r.to->values[d->r.values[v].i];
        here->part = remat_make_part(&d->b, AXIS, &here->shape, layout.run);
        here->shape = remat_layout_shape(&here->shape, layout, d->ranks);
    }
}

static void name_split_gradients(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (uint32_t v = 0; v < from->value_count; v++) {
        struct remat_layout layout = d->layouts.of[v];
        if (from->values[v].role != REMAT_ROLE_GRADIENT || layout.kind != REMAT_LAYOUT_SPLIT)
            continue;
        d->r.to->values[d->r.values[v].i].part =
            remat_make_part(&d->b, AXIS, &from->values[v].shape, layout.run);
    }
}

/* Outputs are whole, new versions of states as these are. */
static void finish_outputs(struct divider *d)
{
    const struct remat_layout whole = {REMAT_LAYOUT_WHOLE, 0};
    const struct remat_graph *from = d->r.from;
    for (uint32_t o = 0; o < from->output_count; o++) {
        remat_value old = from->outputs[o], x = d->r.values[old.i];
        if (equal(d->layouts.of[old.i], whole))
            continue;
        d->b.scope = remat_producer_info(from, old)->scope;
        d->b.phase = remat_producer_info(from, old)->phase;
        d->r.to->values[x.i].name = REMAT_FORMAT(d->r.arena, "%s.term", from->values[old.i].name);
        d->r.to->values[x.i].role = REMAT_ROLE_ACTIVATION;
        x = read_as(d, old, whole);
        d->r.to->values[x.i].name = from->values[old.i].name;
        d->r.to->values[x.i].role = from->values[old.i].role;
        d->r.values[old.i] = x;
    }
}

REMAT_PASS(tensor_parallel)
{
    struct divider d = {.ranks = remat_mesh_size(&graph->mesh, AXIS)};
    struct remat_graph *expanded;
    if (d.ranks == 1 || !remat_is_none(remat_graph_coordinate(graph, AXIS).i)) {
        *out = remat_graph_copy(arena, graph);
        return REMAT_OK;
    }
    if (graph->update_count)
        return remat_error(arena->ctx, REMAT_ERROR_INVALID,
                           "the graph updates \"%s\": a step that updates by itself is not divided "
                           "along " AXIS,
                           graph->values[graph->updates[0].state.i].name);
    REMAT_CHECK(remat_pass_expand(arena, graph, &expanded));
    REMAT_CHECK(remat_pass_eliminate_dead(arena, expanded, &expanded));
    REMAT_CHECK(remat_layouts_find(arena, expanded, AXIS, &d.layouts));
    d.r = remat_rebuild_begin(arena, expanded);
    d.b = (struct remat_builder){.arena = arena, .graph = d.r.to};
    d.coordinate = d.number = d.rng = REMAT_NO_VALUE;
    for (uint32_t e = 0; e < REMAT_LAYOUT_ENTRIES_MAX; e++)
        d.entries[e] = d.states[e] = REMAT_NO_VALUE;
    REMAT_NEW(arena, d.parts, expanded->value_count);
    REMAT_NEW(arena, d.readings, expanded->value_count);
    divide_inputs(&d);
    for (uint32_t n = 0; n < expanded->node_count; n++)
        divide_node(&d, n);
    name_split_gradients(&d);
    finish_outputs(&d);
    *out = remat_rebuild_finish(&d.r);
    return REMAT_OK;
}
