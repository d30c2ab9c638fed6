/* SPDX-License-Identifier: Apache-2.0 */
/* Row reductions [.., n] -> [.., 1] and column sums [.., n] -> [n]. */
#include "family.h"

OP_SHAPE(row_reduce)
{
    REMAT_CHECK(remat_check_input(ctx, graph, node, 0, REMAT_F32, 1, REMAT_ANY_RANK));
    outputs[0] = remat_typed(REMAT_F32, *remat_input_shape(graph, node, 0));
    outputs[0].shape.dims[outputs[0].shape.rank - 1] = 1;
    return REMAT_OK;
}

OP_SHAPE(column_reduce)
{
    REMAT_CHECK(remat_check_input(ctx, graph, node, 0, REMAT_F32, 1, REMAT_ANY_RANK));
    const struct remat_shape *shape = remat_input_shape(graph, node, 0);
    outputs[0] = remat_typed(REMAT_F32, (struct remat_shape){1, {shape->dims[shape->rank - 1]}});
    return REMAT_OK;
}

OP_DERIVE(row_sum)
{
    in_gradients[0] = remat_build_repeat(b, gradient, node->inputs[0]);
}

OP_DERIVE(column_sum)
{
    in_gradients[0] = remat_build_repeat(b, gradient, node->inputs[0]);
}
