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

#include <assert.h>
#include <inttypes.h>

#define AXIS          "tp"
#define SMALL_BYTES   65536     /* of an unfinished value: latency is most of its transfer */
#define POOL_ELEMENTS (1 << 20) /* of unfinished gradients that are finished together */

struct pooled {
    remat_value gradient, term; /* an old and a new value */
};

struct divider {
    struct remat_rebuild r;
    struct remat_builder b;
    struct remat_layouts layouts;
    int64_t ranks;
    struct reading { /* in another layout than it is computed in */
        struct remat_layout layout;
        remat_value value;
        struct reading *next;
    } * *readings;  /* by old value, the last one made first */
    uint32_t *uses; /* of each old value */
    struct REMAT_LIST(struct pooled) pool;
    int64_t pool_elements;
    uint32_t pool_count;    /* of those that were emptied */
    remat_value coordinate; /* REMAT_NO_VALUE: nothing has needed it yet */
    remat_value number;     /* the coordinate in f32 */
    /* Of what is drawn in several parts, by the part: its number, i32 [1]; and by how many there
     * are: its random state. */
    remat_value entries[REMAT_LAYOUT_ENTRIES_MAX];
    remat_value states[REMAT_LAYOUT_ENTRIES_MAX + 1][REMAT_LAYOUT_ENTRIES_MAX];
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

/* Of one value: a copy. */
static remat_value concat(struct divider *d, const remat_value *items, uint32_t count)
{
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    return remat_build(&d->b, REMAT_OP_concat, items, count, &axis, 1, NULL);
}

/* [first, second, third] to [second, first, third], copied. */
static remat_value swap(struct divider *d, remat_value x, int64_t first, int64_t second,
                        int64_t third)
{
    const struct remat_attribute order =
        remat_attribute_ints("permutation", (int64_t[]){1, 0, 2}, 3);
    x = remat_build_reshape(&d->b, x, (int64_t[]){first, second, third}, 3);
    x = remat_build(&d->b, REMAT_OP_transpose, &x, 1, &order, 1, NULL);
    return concat(d, &x, 1);
}

/* Of the rows of [ranks, ..], in their order, each of this shape. */
static remat_value combine(struct divider *d, remat_value rows, uint8_t kind,
                           const struct remat_shape *shape)
{
    struct remat_builder *b = &d->b;
    remat_value all = REMAT_NO_VALUE;
    for (int64_t q = 0; q < d->ranks; q++) {
        remat_value row = remat_build_row(b, rows, q);
        row = remat_build_reshape(b, row, shape->dims, shape->rank);
        row = remat_build_cast(b, row, REMAT_F32);
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
    const struct remat_shape part = {1, {b->graph->values[rows.i].shape.dims[1]}};
    x = combine(d, rows, kind, is_small ? &info.shape : &part);
    x = remat_build_cast(b, x, info.dtype);
    return is_small ? x : remat_build_gather(b, AXIS, x, &info.shape);
}

/* This rank's part of a sum, which is one run. */
static remat_value exchange(struct divider *d, remat_value x, struct remat_layout layout)
{
    struct remat_builder *b = &d->b;
    const struct remat_value_info info = b->graph->values[x.i];
    const struct remat_shape part = remat_layout_shape(&info.shape, layout, d->ranks);
    int64_t elements = remat_shape_elements(&info.shape);
    x = remat_build_reshape(b, x, &elements, 1);
    x = combine(d, remat_build_exchange(b, AXIS, x), REMAT_LAYOUT_SUM, &part);
    return remat_build_cast(b, x, info.dtype);
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

/* This rank's part, flat, of copies behind each other. */
static remat_value take_of_copies(struct divider *d, remat_value x, int64_t run)
{
    const struct remat_layout layout = {.kind = REMAT_LAYOUT_SPLIT, .run = run};
    int64_t elements = remat_shape_elements(&d->b.graph->values[x.i].shape);
    uint32_t count = (uint32_t)(run * d->ranks / elements);
    remat_value copies[REMAT_LAYOUT_ENTRIES_MAX];
    assert(count <= REMAT_LAYOUT_ENTRIES_MAX);
    x = remat_build_reshape(&d->b, x, &elements, 1);
    for (uint32_t k = 0; k < count; k++)
        copies[k] = x;
    return take(d, concat(d, copies, count), layout);
}

static bool equal(struct remat_layout a, struct remat_layout b)
{
    bool runs = a.kind == REMAT_LAYOUT_SPLIT || a.kind == REMAT_LAYOUT_COPIES;
    return a.kind == b.kind && (!runs || a.run == b.run);
}

static remat_value convert(struct divider *d, remat_value old, struct remat_layout from,
                           struct remat_layout to);

/* The value in this layout, for a reader. */
static remat_value read_as(struct divider *d, remat_value old, struct remat_layout layout)
{
    struct remat_layout from = d->layouts.of[old.i];
    if (equal(from, layout))
        return d->r.values[old.i];
    for (struct reading *r = d->readings[old.i]; r; r = r->next)
        if (equal(r->layout, layout))
            return r->value;
    remat_value value = convert(d, old, from, layout);
    struct reading *made = remat_array(d->r.arena, 1, sizeof *made);
    *made = (struct reading){layout, value, d->readings[old.i]};
    d->readings[old.i] = made;
    return value;
}

static bool fits(const struct divider *d, remat_value old, struct remat_layout layout)
{
    struct remat_place place;
    return layout.kind != REMAT_LAYOUT_SPLIT ||
           remat_layout_place(&d->r.from->values[old.i].shape, layout, d->ranks, &place);
}

/* The value that was reshaped, where it can be transferred instead: no reshape changes a layout, so
 * readers of several reshapes share the transfer. */
static remat_value before_reshape(const struct divider *d, remat_value old, struct remat_layout to)
{
    const struct remat_node_info *node = remat_producer_info(d->r.from, old);
    if (!node || node->op != REMAT_OP_reshape)
        return REMAT_NO_VALUE;
    remat_value x = node->inputs[0];
    bool same = equal(d->layouts.of[x.i], d->layouts.of[old.i]);
    return same && fits(d, x, to) ? x : REMAT_NO_VALUE;
}

/* Into another layout: a sum of tokens by way of its parts, any other one, and parts into other
 * parts, by way of the whole, which others may read. */
static remat_value convert(struct divider *d, remat_value old, struct remat_layout from,
                           struct remat_layout to)
{
    static const struct remat_layout whole = {.kind = REMAT_LAYOUT_WHOLE};
    const struct remat_value_info *info = &d->r.from->values[old.i];
    const struct remat_layout parts = {REMAT_LAYOUT_SPLIT, true, from.run};
    const struct remat_shape shape = remat_layout_shape(&info->shape, to, d->ranks);
    bool has_parts = from.kind == REMAT_LAYOUT_SUM && from.tokens && fits(d, old, parts);
    bool exchanges = has_parts && equal(parts, to);
    remat_value x = d->r.values[old.i], source = REMAT_NO_VALUE;
    uint32_t number = 0;
    if (from.kind == REMAT_LAYOUT_SPLIT && to.kind != REMAT_LAYOUT_COPIES)
        source = before_reshape(d, old, to);
    if (!remat_is_none(source.i))
        return remat_build_reshape(&d->b, read_as(d, source, to), shape.dims, shape.rank);
    if (to.kind == REMAT_LAYOUT_WHOLE && has_parts)
        x = read_as(d, old, parts);
    else if (to.kind != REMAT_LAYOUT_WHOLE && from.kind != REMAT_LAYOUT_WHOLE && !exchanges)
        x = read_as(d, old, whole);
    for (const struct reading *r = d->readings[old.i]; r; r = r->next)
        number++; /* so that names differ */
    d->b.prefix = to.kind == REMAT_LAYOUT_WHOLE
                      ? REMAT_FORMAT(d->r.arena, "%s.whole", info->name)
                      : REMAT_FORMAT(d->r.arena, "%s.split_%" PRIu32, info->name, number);
    d->b.counter = 0;
    if (to.kind == REMAT_LAYOUT_COPIES)
        return take_of_copies(d, x, to.run);
    if (to.kind == REMAT_LAYOUT_SPLIT)
        return exchanges ? exchange(d, x, to) : take(d, x, to);
    return from.kind == REMAT_LAYOUT_SPLIT || has_parts ? join(d, x, &info->shape, from.run)
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
    if (!remat_layout_place(&d->r.from->values[y.i].shape, layout, d->ranks, &place))
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
    return remat_layout_place(&d->r.from->values[table.i].shape, layout, d->ranks, &place) &&
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
    remat_value *state = &d->states[entries][number];
    if (d->rng.i != rng.i)
        memset(d->states, 0xff, sizeof d->states);
    d->rng = rng;
    if (!remat_is_none(state->i))
        return *state;
    d->b.scope = REMAT_TOP;
    *state = make_state(d, rng, entries, number);
    d->b.scope = scope;
    return *state;
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

/* Runs one by one: they are what several microbatches of one run draw. */
static void draw(struct divider *d, const struct remat_node_info *node, remat_value rng)
{
    struct remat_builder *b = &d->b;
    remat_value y = node->outputs[0], made[REMAT_LAYOUT_ENTRIES_MAX];
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_shape part = shape_here(d, y);
    int64_t runs = remat_shape_elements(&part) / layout.run;
    b->prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    b->counter = 0;
    for (uint32_t e = 0; e < runs; e++) {
        const struct remat_attribute attributes[] = {
            remat_attribute_int("site", remat_node_int(node, "site", 0)),
            runs > 1 ? remat_attribute_ints("shape", &layout.run, 1)
                     : remat_attribute_ints("shape", part.dims, part.rank)};
        remat_value state = random_state(d, rng, runs, e);
        made[e] = remat_build(b, REMAT_OP_random, &state, 1, attributes, 2, NULL);
    }
    remat_value all = runs > 1 ? concat(d, made, (uint32_t)runs) : made[0];
    stand_for(d, y, remat_build_reshape(b, all, part.dims, part.rank));
}

/* Columns of this rank begin where those of the ranks before it end. */
static void count_columns(struct divider *d, const struct remat_node_info *node,
                          remat_value *inputs)
{
    remat_value y = node->outputs[0];
    const struct remat_shape *shape = &d->r.from->values[y.i].shape;
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_place place;
    if (!remat_layout_place(shape, layout, d->ranks, &place) || place.axis + 1 < shape->rank) {
        copy_node(d, node, inputs);
        return;
    }
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    d->b.counter = 0;
    remat_value first = first_of(d, place.width);
    remat_value column = remat_build1(&d->b, REMAT_OP_column, inputs[0]);
    stand_for(d, y, remat_build2(&d->b, REMAT_OP_add, column, first));
}

/* --- gradients of norms and biases --- */

static bool is_pooled(const struct divider *d, remat_value gradient, remat_value term)
{
    const struct remat_value_info *info = &d->r.from->values[gradient.i];
    return info->role == REMAT_ROLE_GRADIENT && d->uses[gradient.i] == 0 &&
           d->layouts.of[gradient.i].kind == REMAT_LAYOUT_WHOLE &&
           d->layouts.made[term.i].kind == REMAT_LAYOUT_SUM &&
           remat_shape_elements(&info->shape) <= POOL_ELEMENTS;
}

/* One behind the other. */
static remat_value line_up(struct divider *d, remat_value *items, size_t count)
{
    const size_t most = REMAT_LAYOUT_ENTRIES_MAX;
    while (count > 1) {
        size_t left = 0;
        for (size_t k = 0; k < count; k += most) {
            uint32_t some = (uint32_t)(count - k < most ? count - k : most);
            items[left++] = some == 1 ? items[k] : concat(d, &items[k], some);
        }
        count = left;
    }
    return items[0];
}

/* All are gathered at once, for latency is most of the transfer of each. */
static void empty_pool(struct divider *d)
{
    struct remat_builder *b = &d->b;
    remat_value *items = remat_array(d->r.arena, d->pool.count, sizeof *items);
    struct remat_shape all = {2, {d->ranks, d->pool_elements}};
    int64_t begin = 0;
    if (d->pool.count == 0)
        return;
    b->scope = REMAT_TOP;
    b->phase = remat_producer_info(d->r.from, d->pool.items[0].gradient)->phase;
    b->prefix = REMAT_FORMAT(d->r.arena, AXIS ".gradients_%u", d->pool_count++);
    b->counter = 0;
    for (size_t k = 0; k < d->pool.count; k++) {
        remat_value x = remat_build_cast(b, d->pool.items[k].term, REMAT_F32);
        int64_t elements = remat_shape_elements(&b->graph->values[x.i].shape);
        items[k] = remat_build_reshape(b, x, &elements, 1);
    }
    remat_value rows = remat_build_gather(b, AXIS, line_up(d, items, d->pool.count), &all);
    for (size_t k = 0; k < d->pool.count; k++) {
        remat_value gradient = d->pool.items[k].gradient;
        const struct remat_value_info *info = &d->r.from->values[gradient.i];
        int64_t end = begin + remat_shape_elements(&info->shape);
        remat_value x = remat_build_slice(b, rows, 1, begin, end);
        x = combine(d, x, REMAT_LAYOUT_SUM, &info->shape);
        remat_rebuild_replace(&d->r, gradient, remat_build_cast(b, x, info->dtype));
        begin = end;
    }
    d->pool.count = 0;
    d->pool_elements = 0;
}

static void pool(struct divider *d, remat_value gradient, remat_value term)
{
    int64_t elements = remat_shape_elements(&d->r.from->values[gradient.i].shape);
    if (d->pool_elements + elements > POOL_ELEMENTS)
        empty_pool(d);
    REMAT_PUSH(d->r.arena, &d->pool, ((struct pooled){gradient, term}));
    d->pool_elements += elements;
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
    if (is_pooled(d, old, old)) {
        pool(d, old, x);
        return;
    }
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
    const struct remat_shape here = shape_here(d, node->outputs[0]);
    bool reads_table = node->op == REMAT_OP_embedding;
    bool adds_rows =
        node->op == REMAT_OP_embedding_backward || node->op == REMAT_OP_embedding_accumulate;
    d->b.scope = node->scope;
    d->b.phase = node->phase;
    if (node->op == REMAT_OP_cast && is_pooled(d, node->outputs[0], node->inputs[0])) {
        pool(d, node->outputs[0], d->r.values[node->inputs[0].i]); /* rounded when it is a sum */
        return;
    }
    for (uint32_t k = 0; k < node->input_count; k++) {
        inputs[k] = read_as(d, node->inputs[k], d->layouts.wanted[n][k]);
        if (d->layouts.wanted[n][k].kind == REMAT_LAYOUT_COPIES)
            inputs[k] = remat_build_reshape(&d->b, inputs[k], here.dims, here.rank);
    }
    if (reads_table && splits_rows(d, node->inputs[0], d->layouts.wanted[n][0]))
        look_up(d, node, inputs);
    else if (adds_rows && splits_rows(d, node->outputs[0], d->layouts.made[node->outputs[0].i]))
        scatter(d, node, inputs);
    else if (drops_heads(d, node))
        attend(d, node, inputs);
    else if (node->op == REMAT_OP_column)
        count_columns(d, node, inputs);
    else if (node->op == REMAT_OP_random &&
             d->layouts.made[node->outputs[0].i].kind != REMAT_LAYOUT_WHOLE)
        draw(d, node, inputs[0]);
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
    const struct remat_layout whole = {.kind = REMAT_LAYOUT_WHOLE};
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
    memset(d.entries, 0xff, sizeof d.entries);
    d.uses = remat_count_uses(arena, expanded);
    REMAT_NEW(arena, d.parts, expanded->value_count);
    REMAT_NEW(arena, d.readings, expanded->value_count);
    divide_inputs(&d);
    for (uint32_t n = 0; n < expanded->node_count; n++)
        divide_node(&d, n);
    empty_pool(&d);
    name_split_gradients(&d);
    finish_outputs(&d);
    *out = remat_rebuild_finish(&d.r);
    return REMAT_OK;
}
