/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index, and the sum of gradients into the rows that they came from. */
#include "family.h"

OP_SHAPE(embedding)
{
    uint32_t rank = remat_input_shape(graph, node, node->input_count - 1)->rank;
    if (rank + 1 > REMAT_RANK_MAX)
        return INVALID(ctx, "indices of rank %u, at most %d are supported", rank,
                       REMAT_RANK_MAX - 1);
    return REMAT_OK;
}

/* dout has a row for each of the ids, which are the input after it. */
static remat_status check_gradient(remat_context *ctx, const struct remat_graph *graph,
                                   const struct remat_node_info *node, uint32_t dout,
                                   int64_t columns)
{
    REMAT_CHECK(remat_shape_embedding(ctx, graph, node, NULL));
    struct remat_shape expected = *remat_input_shape(graph, node, dout + 1);
    expected.dims[expected.rank++] = columns;
    return remat_check_shape(ctx, graph, node, dout, &expected);
}

OP_SHAPE(embedding_backward)
{
    const struct remat_value_info *dout = remat_input(graph, node, 0);
    int64_t columns = dout->shape.dims[dout->shape.rank - 1];
    int64_t rows = remat_node_int(node, "rows", 0);
    REMAT_CHECK(check_gradient(ctx, graph, node, 0, columns));
    if (rows < 1)
        return INVALID(ctx, "a table of %lld rows", (long long)rows);
    outputs[0] = remat_typed(dout->dtype, (struct remat_shape){2, {rows, columns}});
    return REMAT_OK;
}

OP_SHAPE(embedding_accumulate)
{
    return check_gradient(ctx, graph, node, 1, remat_input_shape(graph, node, 0)->dims[1]);
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
