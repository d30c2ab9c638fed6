/* SPDX-License-Identifier: Apache-2.0 */
/* An unfinished sum is exchanged, added in rank order in f32 and gathered; a small one is gathered
 * from all ranks and added by each. A value that several nodes read in another layout is
 * transferred once, before the first of them. */
#include "divider.h"

#include "builder.h"
#include "rebuild.h"

#include <assert.h>
#include <inttypes.h>

#define SMALL_BYTES 65536 /* of an unfinished value: latency is most of its transfer */

/* --- the rank's number --- */

remat_value remat_divide_coordinate(struct divider *d)
{
    if (!remat_is_none(d->coordinate.i))
        return d->coordinate;
    d->coordinate = remat_build_coordinate(&d->b, REMAT_DIVIDE_AXIS);
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
        remat_value is = remat_build2(b, REMAT_OP_equal, remat_divide_coordinate(d),
                                      remat_build_constant(b, (double)q));
        remat_value term = remat_build2(b, REMAT_OP_mul, is, remat_build_constant(b, (double)q));
        sum = q == 1 ? term : remat_build2(b, REMAT_OP_add, sum, term);
    }
    return d->number = sum;
}

/* The first of this rank's `count`, f32 [1]. */
remat_value remat_divide_first_of(struct divider *d, int64_t count)
{
    return remat_build2(&d->b, REMAT_OP_mul, number(d), remat_build_constant(&d->b, (double)count));
}

/* --- from layout to layout --- */

/* A copy of one value. */
remat_value remat_divide_concat(struct divider *d, const remat_value *items, uint32_t count)
{
    assert(count > 0);
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
    return remat_divide_concat(d, &x, 1);
}

/* Of the rows of [ranks, ..], in their order, each of this shape. */
remat_value remat_divide_combine(struct divider *d, remat_value rows, uint8_t kind,
                                 const struct remat_shape *shape)
{
    assert(d->r.to->values[rows.i].shape.dims[0] == d->ranks);
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
    remat_value rows = is_small ? remat_build_gather(b, REMAT_DIVIDE_AXIS, x, &all)
                                : remat_build_exchange(b, REMAT_DIVIDE_AXIS, x);
    const struct remat_shape part = {1, {b->graph->values[rows.i].shape.dims[1]}};
    x = remat_divide_combine(d, rows, kind, is_small ? &info.shape : &part);
    x = remat_build_cast(b, x, info.dtype);
    return is_small ? x : remat_build_gather(b, REMAT_DIVIDE_AXIS, x, &info.shape);
}

/* This rank's part of a sum, which is one run. */
static remat_value exchange(struct divider *d, remat_value x, struct remat_layout layout)
{
    struct remat_builder *b = &d->b;
    const struct remat_value_info info = b->graph->values[x.i];
    const struct remat_shape part = remat_layout_shape(&info.shape, layout, d->ranks);
    int64_t elements = remat_shape_elements(&info.shape);
    x = remat_build_reshape(b, x, &elements, 1);
    x = remat_divide_combine(d, remat_build_exchange(b, REMAT_DIVIDE_AXIS, x), REMAT_LAYOUT_SUM,
                             &part);
    return remat_build_cast(b, x, info.dtype);
}

/* From this rank's part. */
static remat_value gather_whole(struct divider *d, remat_value x, const struct remat_shape *whole,
                                int64_t run)
{
    int64_t elements = remat_shape_elements(whole), part = elements / d->ranks;
    bool is_one_run = run == part;
    const struct remat_shape rows = {2, {d->ranks, part}};
    x = remat_build_reshape(&d->b, x, &part, 1);
    x = remat_build_gather(&d->b, REMAT_DIVIDE_AXIS, x, is_one_run ? whole : &rows);
    if (is_one_run)
        return x;
    x = swap(d, x, d->ranks, part / run, run);
    return remat_build_reshape(&d->b, x, whole->dims, whole->rank);
}

/* This rank's part. */
static remat_value slice_part(struct divider *d, remat_value x, struct remat_layout layout)
{
    const struct remat_shape whole = d->b.graph->values[x.i].shape;
    const struct remat_shape part = remat_layout_shape(&whole, layout, d->ranks);
    const struct remat_attribute count = remat_attribute_int("count", d->ranks);
    int64_t elements = remat_shape_elements(&whole), runs = elements / (d->ranks * layout.run);
    assert(runs * d->ranks * layout.run == elements &&
           remat_shape_elements(&part) * d->ranks == elements);
    if (runs > 1)
        x = swap(d, x, runs, d->ranks, layout.run);
    x = remat_build_reshape(&d->b, x, &elements, 1);
    const remat_value inputs[] = {x, remat_divide_coordinate(d)};
    x = remat_build(&d->b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    return remat_build_reshape(&d->b, x, part.dims, part.rank);
}

/* This rank's flat part of consecutive copies. */
static remat_value slice_part_of_copies(struct divider *d, remat_value x, int64_t run)
{
    const struct remat_layout layout = {.kind = REMAT_LAYOUT_SPLIT, .run = run};
    int64_t elements = remat_shape_elements(&d->b.graph->values[x.i].shape);
    uint32_t count = (uint32_t)(run * d->ranks / elements);
    remat_value copies[REMAT_LAYOUT_ENTRIES_MAX];
    assert(count <= REMAT_LAYOUT_ENTRIES_MAX);
    x = remat_build_reshape(&d->b, x, &elements, 1);
    for (uint32_t k = 0; k < count; k++)
        copies[k] = x;
    return slice_part(d, remat_divide_concat(d, copies, count), layout);
}

bool remat_divide_equal(struct remat_layout a, struct remat_layout b)
{
    bool runs = a.kind == REMAT_LAYOUT_SPLIT || a.kind == REMAT_LAYOUT_COPIES;
    return a.kind == b.kind && (!runs || a.run == b.run);
}

void remat_divide_mark_part(struct divider *d, remat_value old, struct remat_layout layout,
                            remat_value x)
{
    struct remat_rank_part *part = remat_array(d->r.arena, 1, sizeof *part);
    *part = *remat_make_part(&d->b, REMAT_DIVIDE_AXIS, &d->r.from->values[old.i].shape, layout.run);
    part->tokens = layout.tokens;
    d->r.to->values[x.i].part = part;
}

static remat_value convert(struct divider *d, remat_value old, struct remat_layout from,
                           struct remat_layout to);

/* The value in this layout, for a reader. */
remat_value remat_divide_read(struct divider *d, remat_value old, struct remat_layout layout)
{
    assert(old.i < d->r.from->value_count);
    struct remat_layout from = d->layouts.of[old.i];
    if (remat_divide_equal(from, layout))
        return d->r.values[old.i];
    for (struct reading *r = d->readings[old.i]; r; r = r->next)
        if (remat_divide_equal(r->layout, layout))
            return r->value;
    remat_value value = convert(d, old, from, layout);
    if (layout.kind == REMAT_LAYOUT_SPLIT)
        remat_divide_mark_part(d, old, layout, value);
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
    bool same = remat_divide_equal(d->layouts.of[x.i], d->layouts.of[old.i]);
    return same && fits(d, x, to) ? x : REMAT_NO_VALUE;
}

/* Where the sum was made, whoever reads it first: a layer passes on, and its policy saves, what is
 * finished. */
static remat_value finish_sum(struct divider *d, remat_value old, remat_value x, bool exchanges,
                              bool has_parts)
{
    const struct remat_layout from = d->layouts.of[old.i];
    const struct remat_layout parts = {REMAT_LAYOUT_SPLIT, true, from.run};
    remat_scope_id reader = d->b.scope;
    d->b.scope = remat_producer_info(d->r.from, old)->scope;
    if (exchanges)
        x = exchange(d, x, parts);
    else if (has_parts)
        x = gather_whole(d, x, &d->r.from->values[old.i].shape, from.run);
    else
        x = finish(d, x, from.kind);
    d->b.scope = reader;
    return x;
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
    bool exchanges = has_parts && remat_divide_equal(parts, to);
    remat_value x = d->r.values[old.i], source = REMAT_NO_VALUE;
    uint32_t number = 0;
    if (from.kind == REMAT_LAYOUT_SPLIT && to.kind != REMAT_LAYOUT_COPIES)
        source = before_reshape(d, old, to);
    if (!remat_is_none(source.i))
        return remat_build_reshape(&d->b, remat_divide_read(d, source, to), shape.dims, shape.rank);
    if (to.kind == REMAT_LAYOUT_WHOLE && has_parts)
        x = remat_divide_read(d, old, parts);
    else if (to.kind != REMAT_LAYOUT_WHOLE && from.kind != REMAT_LAYOUT_WHOLE && !exchanges)
        x = remat_divide_read(d, old, whole);
    for (const struct reading *r = d->readings[old.i]; r; r = r->next)
        number++; /* so that names differ */
    d->b.prefix = to.kind == REMAT_LAYOUT_WHOLE
                      ? REMAT_FORMAT(d->r.arena, "%s.whole", info->name)
                      : REMAT_FORMAT(d->r.arena, "%s.split_%" PRIu32, info->name, number);
    d->b.counter = 0;
    if (to.kind == REMAT_LAYOUT_COPIES)
        return slice_part_of_copies(d, x, to.run);
    if (to.kind == REMAT_LAYOUT_SPLIT && !exchanges)
        return slice_part(d, x, to);
    if (from.kind == REMAT_LAYOUT_SPLIT)
        return gather_whole(d, x, &info->shape, from.run);
    return finish_sum(d, old, x, exchanges, has_parts);
}
