/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index, and the sum of gradients into the rows that they came from. */
#include "family.h"

#define EXACT_MAX ((int64_t)1 << 24) /* ids are compared in f32 */

OP_SHAPE(embedding)
{
    uint32_t rank = remat_input_shape(graph, node, node->input_count - 1)->rank;
    int64_t padding = remat_node_int(node, "padding_idx", 0);
    if (rank + 1 > REMAT_RANK_MAX)
        return INVALID(ctx, "indices of rank %u, at most %d are supported", rank,
                       REMAT_RANK_MAX - 1);
    int64_t rows = node->op == REMAT_OP_embedding ? remat_input_shape(graph, node, 0)->dims[0] : 1;
    if (padding < 0 || padding >= rows || padding >= EXACT_MAX)
        return INVALID(ctx, "attribute \"padding_idx\" is %lld, expected 0 to %lld",
                       (long long)padding, (long long)(rows < EXACT_MAX ? rows : EXACT_MAX) - 1);
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

/* dout, but 0 where the id is `padding`. */
static remat_value without_padding(struct remat_builder *b, remat_value dout, remat_value ids,
                                   int64_t padding)
{
    struct remat_shape rows = b->graph->values[ids.i].shape;
    rows.dims[rows.rank++] = 1;
    ids = remat_build_reshape(b, ids, rows.dims, rows.rank);
    remat_value is_padding = OP2(equal, ids, NUMBER((double)padding));
    return LIKE(OP3(select, is_padding, NUMBER(0), F32(dout)), dout);
}

OP_DERIVE(embedding)
{
    const struct remat_attribute *padding = remat_node_attribute(node, "padding_idx");
    if (padding)
        gradient = without_padding(b, gradient, node->inputs[1], padding->i);
    const struct remat_attribute rows =
        remat_attribute_int("rows", remat_input_shape(b->graph, node, 0)->dims[0]);
    const remat_value inputs[] = {gradient, node->inputs[1]};
    in_gradients[0] = remat_build(b, REMAT_OP_embedding_backward, inputs, 2, &rows, 1, NULL);
}
