/* SPDX-License-Identifier: Apache-2.0 */
/* A step in microbatches and on several ranks: rows of the batch, and transfers between ranks. */
#include "family.h"

OP_SHAPE(count)
{
    int64_t count = remat_node_int(node, "count", 0);
    if (count < 1 || count > INT32_MAX)
        return INVALID(ctx, "a count of %lld", (long long)count);
    return REMAT_OK;
}

OP_SHAPE(batch_slice)
{
    REMAT_CHECK(remat_shape_count(ctx, graph, node, outputs));
    int64_t count = remat_node_int(node, "count", 0);
    const struct remat_value_info *x = remat_input(graph, node, 0);
    if (x->shape.dims[0] % count)
        return INVALID(ctx, "a batch of %lld in %lld parts", (long long)x->shape.dims[0],
                       (long long)count);
    outputs[0] = remat_typed(x->dtype, x->shape);
    outputs[0].shape.dims[0] /= count;
    return REMAT_OK;
}

OP_SHAPE(part_number)
{
    int64_t count = remat_node_int(node, "count", 0);
    if (count < 1 || count > REMAT_CALL_TIMES_MAX)
        return INVALID(ctx, "a count of %lld", (long long)count);
    return REMAT_OK;
}

static remat_status check_group(remat_context *ctx, const struct remat_node_info *node)
{
    int64_t ranks = remat_node_int(node, "ranks", 0), group = remat_node_int(node, "group", 0);
    if (ranks < 2 || ranks > REMAT_RANKS_MAX)
        return INVALID(ctx, "%lld ranks, accepted: 2 to %d", (long long)ranks, REMAT_RANKS_MAX);
    if (group < 0 || group >= REMAT_MESH_AXES_MAX)
        return INVALID(ctx, "group %lld of a mesh of at most %d axes", (long long)group,
                       REMAT_MESH_AXES_MAX);
    return REMAT_OK;
}

static int64_t part_length(const struct remat_shape *whole, int64_t ranks)
{
    return (remat_shape_elements(whole) - 1) / ranks + 1;
}

OP_SHAPE(exchange)
{
    REMAT_CHECK(check_group(ctx, node));
    const struct remat_value_info *x = remat_input(graph, node, 0);
    int64_t ranks = remat_node_int(node, "ranks", 0);
    bool rows = x->shape.rank == 2 && x->shape.dims[0] == ranks;
    int64_t part = rows ? x->shape.dims[1] : part_length(&x->shape, ranks);
    outputs[0] = remat_typed(x->dtype, (struct remat_shape){2, {ranks, part}});
    return REMAT_OK;
}

OP_SHAPE(gather)
{
    struct remat_shape shape;
    REMAT_CHECK(check_group(ctx, node));
    REMAT_CHECK(remat_shape_of_attribute(ctx, node, &shape));
    const struct remat_value_info *x = remat_input(graph, node, 0);
    int64_t ranks = remat_node_int(node, "ranks", 0);
    if (x->shape.dims[0] != part_length(&shape, ranks))
        return INVALID(ctx, "a part of %lld elements of shape %s on %lld ranks",
                       (long long)x->shape.dims[0], SHAPE_TEXT(&shape), (long long)ranks);
    outputs[0] = remat_typed(x->dtype, shape);
    return REMAT_OK;
}
