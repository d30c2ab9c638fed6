/* SPDX-License-Identifier: Apache-2.0 */
/* Views (reshape, slice, transpose) and the ops that are their derivatives (pad, concat). */
#include "family.h"

/* --- shapes --- */

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
