/* SPDX-License-Identifier: Apache-2.0 */
/* Views (reshape, slice, transpose) and what undoes them (pad, concat).
 *
 * A view owns no bytes: its elements lie in its storage root at an offset with strides. Reshaping
 * strided elements is a view only where the axes that it joins lie evenly; where they do not, the
 * graph has to say that it copies. */
#include "view.h"

#include "family.h"

/* --- layout --- */

static void dense_strides(const struct remat_shape *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

/* Splits and merges axes, those of length 1 aside; merged ones must follow each other in memory (as
 * NumPy's reshape without a copy). Both shapes have as many elements. */
static bool reshape_strides(const struct remat_shape *from, const int64_t *strides,
                            const struct remat_shape *to, int64_t *out)
{
    int64_t length[REMAT_RANK_MAX], stride[REMAT_RANK_MAX];
    uint32_t rank = 0, begin = 0;
    for (uint32_t d = 0; d < from->rank; d++)
        if (from->dims[d] != 1) {
            length[rank] = from->dims[d];
            stride[rank++] = strides[d];
        }
    dense_strides(to, out);
    for (uint32_t o = 0, o_end; o < rank; o = o_end) {
        while (to->dims[begin] == 1)
            begin++;
        uint32_t end = begin + 1;
        int64_t wanted = to->dims[begin], given = length[o];
        for (o_end = o + 1; wanted != given;)
            if (wanted < given)
                wanted *= to->dims[end++];
            else
                given *= length[o_end++];
        for (uint32_t d = o; d + 1 < o_end; d++)
            if (stride[d] != length[d + 1] * stride[d + 1])
                return false;
        int64_t run = stride[o_end - 1];
        for (uint32_t d = end; d-- > begin; run *= to->dims[d])
            out[d] = run;
        begin = end;
    }
    return true;
}

/* The view of a view node's output, in place of that of its input; false where there is none. */
static bool apply_view(const struct remat_graph *graph, const struct remat_node_info *node,
                       struct remat_view *view)
{
    const struct remat_shape *to = &graph->values[node->outputs[0].i].shape;
    struct remat_view from = *view;
    bool found = true;
    if (node->op == REMAT_OP_slice) {
        int64_t begin = remat_node_int(node, "begin", 0);
        view->offset_elements += (uint64_t)(begin * from.strides[remat_node_int(node, "axis", 0)]);
    } else if (node->op == REMAT_OP_transpose) {
        const struct remat_attribute *permutation = remat_node_attribute(node, "permutation");
        for (uint32_t d = 0; d < permutation->count; d++)
            view->strides[d] = from.strides[permutation->ints[d]];
    } else {
        found = reshape_strides(remat_input_shape(graph, node, 0), from.strides, to, view->strides);
    }
    view->rank = to->rank;
    memcpy(view->shape, to->dims, sizeof view->shape);
    return found;
}

/* The node that value is a view by; NULL where it owns bytes. */
static const struct remat_node_info *view_of(const struct remat_graph *graph, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(graph, value);
    return node && remat_op_has(node->op, REMAT_FACT_VIEW) ? node : NULL;
}

struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value)
{
    static const struct remat_view none = {.root = {REMAT_NONE}};
    const struct remat_node_info *chain[REMAT_VIEW_CHAIN_MAX], *by;
    uint32_t length = 0;
    for (; (by = view_of(graph, value)); value = by->inputs[0]) {
        if (length == REMAT_VIEW_CHAIN_MAX)
            return none;
        chain[length++] = by;
    }
    struct remat_shape rows = graph->values[value.i].shape;
    struct remat_view view = {.root = value, .rank = rows.rank};
    memcpy(view.shape, rows.dims, sizeof view.shape);
    if (graph->values[value.i].pitch)
        rows.dims[rows.rank - 1] = graph->values[value.i].pitch;
    dense_strides(&rows, view.strides);
    while (length-- > 0)
        if (!apply_view(graph, chain[length], &view))
            return none;
    return view;
}

bool remat_can_view(const struct remat_graph *graph, remat_value x)
{
    const struct remat_node_info *view;
    uint32_t length = 0;
    for (; (view = view_of(graph, x)); x = view->inputs[0])
        length++;
    return length < REMAT_VIEW_CHAIN_MAX;
}

bool remat_can_reshape(const struct remat_graph *graph, remat_value x, const struct remat_shape *to)
{
    int64_t strides[REMAT_RANK_MAX];
    if (!remat_can_view(graph, x))
        return false;
    struct remat_view view = remat_view_of(graph, x);
    return !remat_is_none(view.root.i) &&
           reshape_strides(&graph->values[x.i].shape, view.strides, to, strides);
}

/* --- shapes --- */

remat_status remat_shape_of_attribute(remat_context *ctx, const struct remat_node_info *node,
                                      struct remat_shape *out)
{
    const struct remat_attribute *dims = remat_node_attribute(node, "shape");
    int64_t elements = 1;
    if (dims->count > REMAT_RANK_MAX)
        return INVALID(ctx, "%u axes, at most %d are supported", dims->count, REMAT_RANK_MAX);
    *out = (struct remat_shape){dims->count, {0}};
    for (uint32_t d = 0; d < dims->count; d++) {
        out->dims[d] = dims->ints[d];
        if (out->dims[d] <= 0)
            return INVALID(ctx, "axis %u has length %lld", d, (long long)out->dims[d]);
        if (__builtin_mul_overflow(elements, out->dims[d], &elements))
            return INVALID(ctx, "the shape is too large");
    }
    return REMAT_OK;
}

OP_SHAPE(reshape)
{
    struct remat_shape shape;
    REMAT_CHECK(remat_shape_of_attribute(ctx, node, &shape));
    const struct remat_value_info *x = remat_input(graph, node, 0);
    if (remat_shape_elements(&shape) != remat_shape_elements(&x->shape))
        return INVALID(ctx, "shape %s has not as many elements as %s", SHAPE_TEXT(&shape),
                       SHAPE_TEXT(&x->shape));
    if (!remat_can_reshape(graph, node->inputs[0], &shape))
        return INVALID(
            ctx,
            "\"%s\" is a strided view that cannot be reshaped without a copy (concat of it "
            "alone makes one)",
            x->name);
    outputs[0] = remat_typed(x->dtype, shape);
    return REMAT_OK;
}

static remat_status check_chain(remat_context *ctx, const struct remat_graph *graph, remat_value x)
{
    return remat_can_view(graph, x)
               ? REMAT_OK
               : INVALID(ctx, "a chain of more than %d views", REMAT_VIEW_CHAIN_MAX);
}

OP_SHAPE(slice)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    REMAT_CHECK(check_chain(ctx, graph, node->inputs[0]));
    REMAT_CHECK(remat_check_axis(ctx, node, x->shape.rank));
    int64_t axis = remat_node_int(node, "axis", 0);
    int64_t begin = remat_node_int(node, "begin", 0), end = remat_node_int(node, "end", 0);
    if (begin < 0 || begin >= end || end > x->shape.dims[axis])
        return INVALID(ctx, "range [%lld, %lld) of an axis of length %lld", (long long)begin,
                       (long long)end, (long long)x->shape.dims[axis]);
    outputs[0] = remat_typed(x->dtype, x->shape);
    outputs[0].shape.dims[axis] = end - begin;
    return REMAT_OK;
}

OP_SHAPE(transpose)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    REMAT_CHECK(check_chain(ctx, graph, node->inputs[0]));
    const struct remat_attribute *permutation = remat_node_attribute(node, "permutation");
    bool seen[REMAT_RANK_MAX] = {false};
    bool valid = permutation->count == x->shape.rank;
    for (uint32_t d = 0; valid && d < permutation->count; d++) {
        int64_t axis = permutation->ints[d];
        valid = axis >= 0 && axis < x->shape.rank && !seen[axis];
        if (valid)
            seen[axis] = true;
    }
    if (!valid)
        return INVALID(ctx, "permutation is not one of the %u axes of \"%s\"", x->shape.rank,
                       x->name);
    outputs[0] = remat_typed(x->dtype, x->shape);
    for (uint32_t d = 0; d < permutation->count; d++)
        outputs[0].shape.dims[d] = x->shape.dims[permutation->ints[d]];
    return REMAT_OK;
}

OP_SHAPE(pad)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    REMAT_CHECK(remat_check_axis(ctx, node, x->shape.rank));
    int64_t axis = remat_node_int(node, "axis", 0);
    int64_t begin = remat_node_int(node, "begin", 0), length = remat_node_int(node, "length", 0);
    if (begin < 0 || length < 1 || begin > length || x->shape.dims[axis] > length - begin)
        return INVALID(ctx, "%lld elements from %lld on do not fit length %lld",
                       (long long)x->shape.dims[axis], (long long)begin, (long long)length);
    outputs[0] = remat_typed(x->dtype, x->shape);
    outputs[0].shape.dims[axis] = length;
    return REMAT_OK;
}

OP_SHAPE(concat)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    REMAT_CHECK(remat_check_axis(ctx, node, x->shape.rank));
    int64_t axis = remat_node_int(node, "axis", 0);
    int64_t length = 0;
    for (uint32_t k = 0; k < node->input_count; k++) {
        const struct remat_shape *shape = remat_input_shape(graph, node, k);
        struct remat_shape expected = x->shape;
        if (shape->rank == expected.rank)
            expected.dims[axis] = shape->dims[axis];
        REMAT_CHECK(remat_check_shape(ctx, graph, node, k, &expected));
        REMAT_CHECK(remat_check_input(ctx, graph, node, k, x->dtype, 1, REMAT_ANY_RANK));
        if (__builtin_add_overflow(length, shape->dims[axis], &length))
            return INVALID(ctx, "the result is too large");
    }
    outputs[0] = remat_typed(x->dtype, x->shape);
    outputs[0].shape.dims[axis] = length;
    return REMAT_OK;
}

/* --- derivatives --- */

OP_DERIVE(reshape)
{
    struct remat_shape shape = *remat_input_shape(b->graph, node, 0);
    in_gradients[0] = remat_build_reshape(b, gradient, shape.dims, shape.rank);
}

OP_DERIVE(slice)
{
    int64_t axis = remat_node_int(node, "axis", 0);
    const struct remat_attribute attributes[] = {
        remat_attribute_int("axis", axis),
        remat_attribute_int("begin", remat_node_int(node, "begin", 0)),
        remat_attribute_int("length", remat_input_shape(b->graph, node, 0)->dims[axis]),
    };
    in_gradients[0] = remat_build(b, REMAT_OP_pad, &gradient, 1, attributes, 3, NULL);
}

OP_DERIVE(transpose)
{
    const struct remat_attribute *permutation = remat_node_attribute(node, "permutation");
    int64_t inverse[REMAT_RANK_MAX];
    for (uint32_t d = 0; d < permutation->count; d++)
        inverse[permutation->ints[d]] = d;
    const struct remat_attribute attribute =
        remat_attribute_ints("permutation", inverse, permutation->count);
    in_gradients[0] = remat_build(b, REMAT_OP_transpose, &gradient, 1, &attribute, 1, NULL);
}

OP_DERIVE(pad)
{
    int64_t axis = remat_node_int(node, "axis", 0), begin = remat_node_int(node, "begin", 0);
    int64_t end = begin + remat_input_shape(b->graph, node, 0)->dims[axis];
    in_gradients[0] = remat_build_slice(b, gradient, (uint32_t)axis, begin, end);
}

OP_DERIVE(concat)
{
    int64_t axis = remat_node_int(node, "axis", 0), begin = 0;
    for (uint32_t k = 0; k < node->input_count; k++) {
        int64_t end = begin + remat_input_shape(b->graph, node, k)->dims[axis];
        in_gradients[k] = node->input_count == 1
                              ? gradient
                              : remat_build_slice(b, gradient, (uint32_t)axis, begin, end);
        begin = end;
    }
}
