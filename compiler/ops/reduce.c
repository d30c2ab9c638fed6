/* SPDX-License-Identifier: Apache-2.0 */
/* Row reductions [.., n] -> [.., 1] and column sums [.., n] -> [n]. */
#include "family.h"

OP_DERIVE(row_sum)
{
    in_gradients[0] = remat_build_repeat(b, gradient, node->inputs[0]);
}

OP_DERIVE(column_sum)
{
    in_gradients[0] = remat_build_repeat(b, gradient, node->inputs[0]);
}
