/* SPDX-License-Identifier: Apache-2.0 */
/* A step in microbatches: parts of the whole batch, by an index that the device counts. */
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
