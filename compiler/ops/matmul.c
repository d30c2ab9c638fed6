/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. Transposes are attributes, so that no derivative moves data. A leading axis of
 * length 1 is repeated, so that heads that share keys need no copy of them. */
#include "family.h"

OP_SHAPE(matmul)
{
    const struct remat_shape *x = remat_input_shape(graph, node, 0);
    const struct remat_shape *y = remat_input_shape(graph, node, 1);
    remat_dtype dtype = remat_input(graph, node, 0)->dtype;
    uint32_t rank = x->rank;
    REMAT_CHECK(remat_check_input(ctx, graph, node, 0, dtype, 2, REMAT_ANY_RANK));
    REMAT_CHECK(remat_check_input(ctx, graph, node, 1, dtype, rank, rank));
    bool transpose_a = remat_node_int(node, "transpose_a", 0);
    bool transpose_b = remat_node_int(node, "transpose_b", 0);
    bool fits = x->dims[rank - (transpose_a ? 2 : 1)] == y->dims[rank - (transpose_b ? 1 : 2)];
    for (uint32_t d = 0; d + 2 < rank; d++)
        fits = fits && (x->dims[d] == y->dims[d] || x->dims[d] == 1 || y->dims[d] == 1);
    if (!fits)
        return INVALID(ctx, "shapes %s%s and %s%s do not multiply", SHAPE_TEXT(x),
                       transpose_a ? " (transposed)" : "", SHAPE_TEXT(y),
                       transpose_b ? " (transposed)" : "");
    outputs[0] = remat_typed(dtype, *x);
    for (uint32_t d = 0; d + 2 < rank; d++)
        outputs[0].shape.dims[d] = x->dims[d] == 1 ? y->dims[d] : x->dims[d];
    outputs[0].shape.dims[rank - 2] = x->dims[rank - (transpose_a ? 1 : 2)];
    outputs[0].shape.dims[rank - 1] = y->dims[rank - (transpose_b ? 2 : 1)];
    return REMAT_OK;
}

OP_SHAPE(matmul_accumulate)
{
    struct remat_node_info product = *node;
    product.inputs++;
    product.input_count--;
    REMAT_CHECK(remat_shape_matmul(ctx, graph, &product, outputs));
    return remat_check_shape(ctx, graph, node, 0, &outputs[0].shape);
}

OP_SHAPE(linear)
{
    const struct remat_shape *x = remat_input_shape(graph, node, 0);
    const struct remat_shape *w = remat_input_shape(graph, node, 1);
    bool transposed = remat_node_int(node, "transpose_weight", 0);
    int64_t n = w->dims[transposed ? 0 : 1];
    if (x->dims[x->rank - 1] != w->dims[transposed ? 1 : 0])
        return INVALID(ctx, "input %s does not fit weight %s%s", SHAPE_TEXT(x), SHAPE_TEXT(w),
                       transposed ? " (transposed)" : "");
    uint32_t bias = remat_node_operand(node, "bias");
    if (!remat_is_none(bias))
        REMAT_CHECK(remat_check_shape(ctx, graph, node, bias, &(struct remat_shape){1, {n}}));
    outputs[0] = remat_typed(remat_input(graph, node, 0)->dtype, *x);
    outputs[0].shape.dims[x->rank - 1] = n;
    return REMAT_OK;
}

/* 2 k for each result, and a bias. */
OP_FLOPS(matmul)
{
    const struct remat_shape *a =
        remat_input_shape(graph, node, node->op == REMAT_OP_matmul_accumulate);
    int64_t k = a->dims[a->rank - (remat_node_int(node, "transpose_a", 0) ? 2 : 1)];
    bool biased = node->op == REMAT_OP_linear && !remat_is_none(remat_node_operand(node, "bias"));
    int64_t results = remat_shape_elements(&graph->values[node->outputs[0].i].shape);
    return remat_mul_saturated((uint64_t)results, 2 * (uint64_t)k + biased);
}

/* The gradient of b comes first: where b is a weight, it can be used up before a's is made. */
OP_DERIVE(matmul)
{
    bool ta = remat_node_int(node, "transpose_a", 0), tb = remat_node_int(node, "transpose_b", 0);
    remat_value x = node->inputs[0], y = node->inputs[1], g = gradient;
    struct remat_shape x_shape = *remat_input_shape(b->graph, node, 0);
    struct remat_shape y_shape = *remat_input_shape(b->graph, node, 1);
    remat_value dy =
        tb ? remat_build_matmul(b, g, x, true, ta) : remat_build_matmul(b, x, g, !ta, false);
    in_gradients[1] = remat_build_sum_to(b, dy, &y_shape);
    remat_value dx =
        ta ? remat_build_matmul(b, y, g, tb, true) : remat_build_matmul(b, g, y, false, !tb);
    in_gradients[0] = remat_build_sum_to(b, dx, &x_shape);
}

OP_DERIVE(linear)
{
    bool transposed = remat_node_int(node, "transpose_weight", 0);
    struct remat_shape shape = *remat_input_shape(b->graph, node, 0);
    remat_value x_rows = remat_build_rows(b, node->inputs[0]);
    remat_value g_rows = remat_build_rows(b, gradient);
    in_gradients[1] = transposed ? remat_build_matmul(b, g_rows, x_rows, true, false)
                                 : remat_build_matmul(b, x_rows, g_rows, true, false);
    remat_value bias = OPTIONAL(node->inputs, "bias");
    if (!remat_is_none(bias.i))
        in_gradients[2] = LIKE(OP1(column_sum, F32(gradient)), bias);
    remat_value x_gradient = remat_build_matmul(b, g_rows, node->inputs[1], false, !transposed);
    in_gradients[0] = remat_build_reshape(b, x_gradient, shape.dims, shape.rank);
}

OP_EXPAND(linear)
{
    bool transposed = remat_node_int(node, "transpose_weight", 0);
    struct remat_shape shape = b->graph->values[inputs[0].i].shape;
    shape.dims[shape.rank - 1] = b->graph->values[inputs[1].i].shape.dims[transposed ? 0 : 1];
    remat_value rows = remat_build_rows(b, inputs[0]);
    remat_value product = remat_build_matmul(b, rows, inputs[1], false, transposed);
    outputs[0] = remat_build_reshape(b, product, shape.dims, shape.rank);
    remat_value bias = OPTIONAL(inputs, "bias");
    if (!remat_is_none(bias.i))
        outputs[0] = OP2(add, outputs[0], bias);
}
