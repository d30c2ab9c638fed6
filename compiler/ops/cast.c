/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of dtype: where bf16 values meet f32 arithmetic. Widening is exact, so a cast that undoes
 * one is the value itself. */
#include "cast.h"

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

bool remat_is_widening(const struct remat_graph *graph, remat_value x)
{
    const struct remat_node_info *node = remat_producer_info(graph, x);
    return node && node->op == REMAT_OP_cast && graph->values[x.i].dtype == REMAT_F32;
}

remat_value remat_build_cast(struct remat_builder *b, remat_value x, remat_dtype dtype)
{
    if (b->graph->values[x.i].dtype == dtype)
        return x;
    if (remat_is_widening(b->graph, x))
        return remat_producer_info(b->graph, x)->inputs[0];
    const struct remat_attribute attribute = remat_attribute_int("dtype", dtype);
    return remat_build(b, REMAT_OP_cast, &x, 1, &attribute, 1, NULL);
}

remat_value remat_build_like(struct remat_builder *b, remat_value x, remat_value like)
{
    return remat_build_cast(b, x, b->graph->values[like.i].dtype);
}

OP_DERIVE(cast)
{
    in_gradients[0] = remat_build_like(b, gradient, node->inputs[0]);
}
