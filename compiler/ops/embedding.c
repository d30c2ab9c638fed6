/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index, and the sum of gradients into the rows that they came from. */
#include "family.h"

/* [leading axes of ids, last] */
static remat_status rows_shape(remat_context *ctx, const struct remat_shape *ids, int64_t last,
                               struct remat_shape *out)
{
    if (ids->rank + 1 > REMAT_RANK_MAX)
        return INVALID(ctx, "indices of rank %u, at most %d are supported", ids->rank,
                       REMAT_RANK_MAX - 1);
    *out = *ids;
    out->dims[out->rank++] = last;
    return REMAT_OK;
}

OP_SHAPE(embedding)
{
    REMAT_CHECK(remat_check_float(ctx, graph, node, 0, 2, 2));
    REMAT_CHECK(remat_check_input(ctx, graph, node, 1, REMAT_I32, 0, REMAT_ANY_RANK));
    outputs[0].dtype = remat_input(graph, node, 0)->dtype;
    return rows_shape(ctx, remat_input_shape(graph, node, 1),
                      remat_input_shape(graph, node, 0)->dims[1], &outputs[0].shape);
}

/* dout is input `first`, ids the one after it. */
static remat_status check_gradient(remat_context *ctx, const struct remat_graph *graph,
                                   const struct remat_node_info *node, uint32_t first,
                                   int64_t columns)
{
    struct remat_shape expected;
    REMAT_CHECK(remat_check_input(ctx, graph, node, first + 1, REMAT_I32, 0, REMAT_ANY_RANK));
    REMAT_CHECK(rows_shape(ctx, remat_input_shape(graph, node, first + 1), columns, &expected));
    return remat_check_shape(ctx, graph, node, first, &expected);
}

OP_SHAPE(embedding_backward)
{
    REMAT_CHECK(remat_check_float(ctx, graph, node, 0, 1, REMAT_ANY_RANK));
    const struct remat_shape *gradient = remat_input_shape(graph, node, 0);
    int64_t columns = gradient->dims[gradient->rank - 1];
    int64_t rows = remat_node_int(node, "rows", 0);
    REMAT_CHECK(check_gradient(ctx, graph, node, 0, columns));
    if (rows < 1)
        return INVALID(ctx, "a table of %lld rows", (long long)rows);
    outputs[0] =
        remat_typed(remat_input(graph, node, 0)->dtype, (struct remat_shape){2, {rows, columns}});
    return REMAT_OK;
}

OP_SHAPE(embedding_accumulate)
{
    REMAT_CHECK(remat_check_float(ctx, graph, node, 0, 2, 2));
    REMAT_CHECK(remat_check_like_first(ctx, graph, node, 1, 1, REMAT_ANY_RANK));
    const struct remat_shape *table = remat_input_shape(graph, node, 0);
    REMAT_CHECK(check_gradient(ctx, graph, node, 1, table->dims[1]));
    outputs[0] = remat_typed(remat_input(graph, node, 0)->dtype, *table);
    return REMAT_OK;
}

/* A sum for each element of dout, whatever the table's size. */
OP_FLOPS(embedding_backward)
{
    uint32_t dout = node->op == REMAT_OP_embedding_accumulate ? 1 : 0;
    return (uint64_t)remat_shape_elements(remat_input_shape(graph, node, dout));
}

OP_DERIVE(embedding)
{
    const struct remat_attribute rows =
        remat_attribute_int("rows", remat_input_shape(b->graph, node, 0)->dims[0]);
    const remat_value inputs[] = {gradient, node->inputs[1]};
    in_gradients[0] = remat_build(b, REMAT_OP_embedding_backward, inputs, 2, &rows, 1, NULL);
}
