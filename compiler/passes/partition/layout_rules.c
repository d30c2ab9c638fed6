/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of elementwise ops and reductions: the split axis of the largest input decides. Ops that
 * change a shape keep the layout where the split axis allows it. */
#include "layout_finder.h"

static bool is_unfinished(struct layout_finder *f, remat_value v)
{
    return layout_of(f, v)->kind >= REMAT_LAYOUT_SUM;
}

/* All wholes. */
remat_status remat_layout_rule_whole(struct layout_finder *f, const struct layout_rule *r)
{
    (void)f, (void)r;
    return REMAT_OK;
}

/* Unfinished operands are read as they are, to a result that is finished whole. */
static remat_status pass_on(const struct layout_rule *r)
{
    for (uint32_t k = 0; k < r->node->input_count; k++)
        r->want[k] = sum;
    r->out[0] = sum;
    return REMAT_OK;
}

/* A sum of sums, or a multiple of one. */
static bool is_linear(struct layout_finder *f, const struct remat_node_info *node)
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

/* The largest split input, REMAT_NONE without one; over tokens only if all are. */
static uint32_t find_split(struct layout_finder *f, const struct remat_node_info *node)
{
    uint32_t found = REMAT_NONE;
    int64_t most = 0;
    bool tokens = true;
    struct remat_place place;
    for (uint32_t k = 0; k < node->input_count; k++) {
        int64_t elements = remat_shape_elements(shape_of(f, node->inputs[k]));
        if (!place_of(f, node->inputs[k], &place) ||
            (place.tokens == tokens ? elements <= most : place.tokens))
            continue;
        most = elements;
        tokens = place.tokens;
        found = k;
    }
    return found;
}

/* Of an operand of a pointwise op: as long as the result along an axis of that. */
static bool is_along(const struct remat_shape *from, const struct remat_shape *to, uint32_t axis)
{
    uint32_t lead = to->rank - from->rank;
    return axis >= lead && from->dims[axis - lead] == to->dims[axis];
}

/* Along all axes up to this one, or, else, along none. */
static bool is_joint(const struct remat_shape *from, const struct remat_shape *to, uint32_t axis,
                     bool along)
{
    for (uint32_t d = 0; d <= axis; d++)
        if (to->dims[d] > 1 && is_along(from, to, d) != along)
            return false;
    return true;
}

/* True if the result has the elements of a few consecutive copies of the operand. */
static bool makes_copies(const struct remat_shape *from, const struct remat_shape *to)
{
    uint32_t lead = to->rank - from->rank, d = 0;
    while (d < from->rank && from->dims[d] == 1)
        d++;
    for (; d < from->rank; d++)
        if (from->dims[d] != to->dims[d + lead])
            return false;
    return remat_shape_elements(to) / remat_shape_elements(from) <= REMAT_LAYOUT_ENTRIES_MAX;
}

bool remat_layout_split_along(struct layout_finder *f, const struct layout_rule *r, uint32_t axis,
                              const struct remat_place *place)
{
    const struct remat_node_info *node = r->node;
    const struct remat_shape *to = shape_of(f, node->outputs[0]);
    for (uint32_t i = 0; i < node->input_count && place->joint; i++) {
        const struct remat_shape *from = shape_of(f, node->inputs[i]);
        if (is_joint(from, to, axis, false))
            continue;
        if (!is_joint(from, to, axis, true) && !makes_copies(from, to))
            return false;
    }
    r->out[0] = split_like(to, axis, place);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_shape *from = shape_of(f, node->inputs[i]);
        if (place->joint ? is_joint(from, to, axis, true) : is_along(from, to, axis))
            r->want[i] = split_like(from, axis + from->rank - to->rank, place);
        else if (place->joint && !is_joint(from, to, axis, false))
            r->want[i] = (struct remat_layout){REMAT_LAYOUT_COPIES, true, r->out[0].run};
    }
    return true;
}

remat_status remat_layout_rule_pointwise(struct layout_finder *f, const struct layout_rule *r)
{
    const struct remat_node_info *node = r->node;
    uint32_t k = find_split(f, node);
    struct remat_place place;
    if (is_linear(f, node)) {
        for (uint32_t i = 0; i < node->input_count; i++)
            if (is_unfinished(f, node->inputs[i]))
                r->want[i] = r->out[0] = *layout_of(f, node->inputs[i]);
        return REMAT_OK;
    }
    if (k == REMAT_NONE)
        return REMAT_OK;
    (void)place_of(f, node->inputs[k], &place);
    uint32_t lead = shape_of(f, node->outputs[0])->rank - shape_of(f, node->inputs[k])->rank;
    (void)remat_layout_split_along(f, r, place.axis + lead, &place);
    return REMAT_OK;
}

/* Only the shape of its input counts. Columns of several blocks have no one offset. */
remat_status remat_layout_rule_column(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0];
    struct remat_layout layout = *layout_of(f, x);
    struct remat_place place;
    bool split = layout.kind == REMAT_LAYOUT_SPLIT && place_of(f, x, &place);
    if (split && place.axis + 1 == shape_of(f, x)->rank && place.blocks > 1)
        return REMAT_OK;
    r->want[0] = layout;
    if (split)
        r->out[0] = layout;
    return REMAT_OK;
}

remat_status remat_layout_rule_row_reduce(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0];
    const struct remat_shape *from = shape_of(f, x), *to = shape_of(f, r->node->outputs[0]);
    bool sums = r->node->op == REMAT_OP_row_sum;
    struct remat_place place;
    if (sums && passes_on(f, x))
        return pass_on(r);
    if (!place_of(f, x, &place))
        return REMAT_OK;
    r->want[0] = finished(f, x);
    r->out[0] = (struct remat_layout){.kind = sums ? REMAT_LAYOUT_SUM : REMAT_LAYOUT_MAXIMUM};
    if (place.axis + 1 < from->rank)
        r->out[0] = split_like(to, place.axis, &place);
    return REMAT_OK;
}

remat_status remat_layout_rule_column_reduce(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0];
    const struct remat_shape *from = shape_of(f, x), *to = shape_of(f, r->node->outputs[0]);
    struct remat_place place;
    if (passes_on(f, x))
        return pass_on(r);
    if (!place_of(f, x, &place))
        return REMAT_OK;
    r->want[0] = finished(f, x);
    r->out[0] = place.axis + 1 == from->rank ? split_at(to, 0, place.width) : sum;
    return REMAT_OK;
}

remat_status remat_layout_rule_reshape(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    struct remat_layout layout = passes_on(f, x) ? *layout_of(f, x) : finished(f, x);
    struct remat_place place;
    bool fits = remat_layout_place(shape_of(f, y), layout, f->ranks, &place);
    if (passes_on(f, x) || (layout.kind == REMAT_LAYOUT_SPLIT && (fits || !layout.tokens)))
        r->want[0] = r->out[0] = layout;
    if (layout.kind != REMAT_LAYOUT_SPLIT || fits || layout.tokens)
        return REMAT_OK;
    int64_t after = 1; /* the dimension that ends a block */
    uint32_t d = shape_of(f, y)->rank - 1;
    while (d > 0 && (after *= shape_of(f, y)->dims[d]) < layout.run * f->ranks)
        d--;
    return remat_layout_refuse(f, y, d);
}

remat_status remat_layout_rule_transpose(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    const struct remat_attribute *permutation = remat_node_attribute(r->node, "permutation");
    struct remat_place place;
    if (passes_on(f, x))
        return pass_on(r);
    if (!place_of(f, x, &place) || place.joint)
        return REMAT_OK;
    uint32_t d = 0;
    while (permutation->ints[d] != place.axis)
        d++;
    r->want[0] = finished(f, x);
    r->out[0] = split_like(shape_of(f, y), d, &place);
    return REMAT_OK;
}

/* slice, pad: of whole blocks, where along the axis that is split. */
remat_status remat_layout_rule_box(struct layout_finder *f, const struct layout_rule *r)
{
    remat_value x = r->node->inputs[0], y = r->node->outputs[0];
    const char *end_key = r->node->op == REMAT_OP_slice ? "end" : "length";
    int64_t begin = remat_node_int(r->node, "begin", 0), end = remat_node_int(r->node, end_key, 0);
    struct remat_place place;
    if (passes_on(f, x))
        return pass_on(r);
    if (!place_of(f, x, &place))
        return REMAT_OK;
    int64_t block = f->ranks * place.width, axis = remat_node_int(r->node, "axis", 0);
    if (place.joint ? axis <= place.axis : axis == place.axis && (begin % block || end % block))
        return REMAT_OK;
    r->want[0] = finished(f, x);
    r->out[0] = split_like(shape_of(f, y), place.axis, &place);
    return REMAT_OK;
}

remat_status remat_layout_rule_concat(struct layout_finder *f, const struct layout_rule *r)
{
    const struct remat_node_info *node = r->node;
    uint32_t k = find_split(f, node), sums = 0;
    bool fits = k != REMAT_NONE;
    struct remat_place place = {0};
    if (fits)
        (void)place_of(f, node->inputs[k], &place);
    if (place.joint && remat_node_int(node, "axis", 0) <= place.axis)
        fits = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        int64_t length = shape_of(f, node->inputs[i])->dims[place.axis];
        fits = fits && (place.joint || length % (f->ranks * place.width) == 0);
        sums += passes_on(f, node->inputs[i]);
    }
    if (sums == node->input_count)
        return pass_on(r);
    if (!fits)
        return REMAT_OK;
    for (uint32_t i = 0; i < node->input_count; i++)
        r->want[i] = split_like(shape_of(f, node->inputs[i]), place.axis, &place);
    r->out[0] = split_like(shape_of(f, node->outputs[0]), place.axis, &place);
    return REMAT_OK;
}
