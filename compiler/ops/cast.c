/* SPDX-License-Identifier: Apache-2.0 */
/* Casts between f32 and rounded dtypes. */

#include "family.h"

static const char rounded[] = /* " bf16, 3," */
#define ROUNDED_DTYPE(NAME, name, number, ...) " " #name ", " #number ","
#include <remat/dtypes.def>
    ;

OP_SHAPE(cast)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    int64_t dtype = remat_node_int(node, "dtype", 0);
    bool widens = remat_dtype_is_rounded(x->dtype) && dtype == REMAT_F32;
    bool narrows = x->dtype == REMAT_F32 && remat_dtype_is_rounded((remat_dtype)dtype);
    if (!widens && !narrows)
        return INVALID(ctx, "no cast from %s to dtype %lld (there are f32 to%s and back, %d)",
                       remat_dtype_name(x->dtype), (long long)dtype, rounded, REMAT_F32);
    outputs[0] = remat_typed((remat_dtype)dtype, x->shape);
    return REMAT_OK;
}

OP_DERIVE(cast)
{
    in_gradients[0] = remat_build_like(b, gradient, node->inputs[0]);
}
