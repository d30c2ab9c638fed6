/* SPDX-License-Identifier: Apache-2.0 */
/* A step in microbatches: parts of the whole batch, by an index that the device counts. */
#include "family.h"

static remat_status check_count(remat_context *ctx, const struct remat_node_info *node,
                                int64_t *out)
{
    *out = remat_node_int(node, "count", 0);
    if (*out < 1 || *out > INT32_MAX)
        return INVALID(ctx, "a count of %lld", (long long)*out);
    return REMAT_OK;
}

OP_SHAPE(batch_slice)
{
    int64_t count;
    REMAT_CHECK(check_count(ctx, node, &count));
    const struct remat_value_info *x = remat_input(graph, node, 0);
    REMAT_CHECK(remat_check_input(ctx, graph, node, 0, x->dtype, 1, REMAT_ANY_RANK));
    REMAT_CHECK(remat_check_vector(ctx, graph, node, 1, REMAT_I32, 1));
    if (x->shape.dims[0] % count)
        return INVALID(ctx, "a batch of %lld in %lld parts", (long long)x->shape.dims[0],
                       (long long)count);
    outputs[0] = remat_typed(x->dtype, x->shape);
    outputs[0].shape.dims[0] /= count;
    return REMAT_OK;
}

OP_SHAPE(advance)
{
    int64_t count;
    REMAT_CHECK(check_count(ctx, node, &count));
    REMAT_CHECK(remat_check_vector(ctx, graph, node, 0, REMAT_I32, 1));
    outputs[0] = remat_typed(REMAT_I32, (struct remat_shape){1, {1}});
    return REMAT_OK;
}
