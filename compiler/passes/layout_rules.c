/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of elementwise ops and reductions: the split axis of the largest input decides. Ops that
 * change a shape keep the layout where the split axis allows it. */
#include "layout_finder.h"

static bool is_unfinished(struct finder *f, remat_value v)
{
    return layout_of(f, v)->kind >= REMAT_LAYOUT_SUM;
}

/* All wholes. */
remat_status remat_layout_rule_whole(struct finder *f, const struct rule_of *r)
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

remat_status remat_layout_rule_pointwise(struct finder *f, const struct rule_of *r)
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
remat_status remat_layout_rule_column(struct finder *f, const struct rule_of *r)
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

remat_status remat_layout_rule_row_reduce(struct finder *f, const struct rule_of *r)
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

remat_status remat_layout_rule_column_reduce(struct finder *f, const struct rule_of *r)
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

remat_status remat_layout_rule_reshape(struct finder *f, const struct rule_of *r)
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
    return remat_layout_refuse(f, y, d);
}

remat_status remat_layout_rule_transpose(struct finder *f, const struct rule_of *r)
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
remat_status remat_layout_rule_box(struct finder *f, const struct rule_of *r)
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

remat_status remat_layout_rule_concat(struct finder *f, const struct rule_of *r)
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
