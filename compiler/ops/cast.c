/* SPDX-License-Identifier: Apache-2.0 */
/* Casts between bf16 and f32. */
#include "builder.h"

#include "family.h"

OP_SHAPE(cast)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    int64_t dtype = remat_node_int(node, "dtype", 0);
    bool widens = x->dtype == REMAT_BF16 && dtype == REMAT_F32;
    bool narrows = x->dtype == REMAT_F32 && dtype == REMAT_BF16;
    if (!widens && !narrows)
        return INVALID(ctx,
                       "no cast from %s to dtype %lld (there are f32 to bf16, %d, and back, %d)",
                       remat_dtype_name(x->dtype), (long long)dtype, REMAT_BF16, REMAT_F32);
    outputs[0] = remat_typed((remat_dtype)dtype, x->shape);
    return REMAT_OK;
}

OP_DERIVE(cast)
{
    in_gradients[0] = remat_build_like(b, gradient, node->inputs[0]);
}
