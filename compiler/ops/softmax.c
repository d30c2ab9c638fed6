/* SPDX-License-Identifier: Apache-2.0 */
/* Written-out attention between its two products. The gradient of softmax reads its result
 * alone, so that neither scores nor masked scores are kept. */
#include "family.h"

#include <float.h>

OP_EXPAND(softmax)
{
    remat_value x = F32(inputs[0]);
    remat_value e = OP1(exp, OP2(sub, x, OP1(row_max, x)));
    outputs[0] = LIKE(OP2(div, e, OP1(row_sum, e)), inputs[0]);
}

OP_DERIVE(softmax)
{
    remat_value y = F32(node->outputs[0]), g = F32(gradient);
    remat_value dot = OP1(row_sum, OP2(mul, g, y));
    in_gradients[0] = LIKE(OP2(mul, OP2(sub, g, dot), y), node->inputs[0]);
}

OP_SHAPE(mask_causal)
{
    const struct remat_shape *x = remat_input_shape(graph, node, 0);
    int64_t queries = x->dims[x->rank - 2], keys = x->dims[x->rank - 1];
    if (queries > keys)
        return INVALID(ctx,
                       "causal mask of %lld queries to %lld keys: the first queries see no key",
                       (long long)queries, (long long)keys);
    REMAT_CHECK(remat_check_columns(ctx, keys));
    return remat_check_window(ctx, node, keys);
}

/* Not 0 where x is masked. */
static remat_value masked(struct remat_builder *b, remat_value x, remat_value positions)
{
    const struct remat_shape *shape = &b->graph->values[x.i].shape;
    int64_t queries = shape->dims[shape->rank - 2], keys = shape->dims[shape->rank - 1];
    remat_value last = remat_build_reshape(b, positions, (int64_t[]){queries, 1}, 2);
    if (keys > queries)
        last = OP2(add, last, NUMBER((double)(keys - queries)));
    return OP2(less, last, OP1(column, x));
}

OP_EXPAND(mask_causal)
{
    remat_value x = F32(inputs[0]), scale = NUMBER(remat_node_number(node, "scale"));
    remat_value scaled = remat_build_product(b, x, scale);
    remat_value y = OP3(select, masked(b, x, inputs[1]), NUMBER(-FLT_MAX), scaled);
    outputs[0] = LIKE(y, inputs[0]);
}

OP_DERIVE(mask_causal)
{
    remat_value g = F32(gradient), scale = NUMBER(remat_node_number(node, "scale"));
    remat_value scaled = remat_build_product(b, g, scale);
    remat_value dx = OP3(select, masked(b, g, node->inputs[1]), NUMBER(0), scaled);
    in_gradients[0] = LIKE(dx, node->inputs[0]);
}

OP_EXPAND(scale)
{
    remat_value factor = NUMBER(remat_node_number(node, "scale"));
    outputs[0] = LIKE(OP2(mul, F32(inputs[0]), factor), inputs[0]);
}

OP_DERIVE(scale)
{
    remat_value factor = NUMBER(remat_node_number(node, "scale"));
    in_gradients[0] = LIKE(OP2(mul, F32(gradient), factor), node->inputs[0]);
}
