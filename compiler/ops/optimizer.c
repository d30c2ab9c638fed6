/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW and SGD with PyTorch's formulas and order of operations, in f32: states in bf16 are rounded
 * when they are written. Factors that depend on the step alone are computed once by
 * adamw_coefficients, and what does not decay is multiplied by a coefficient that is 1, so that all
 * updates are one kernel; `assign` makes each new value the new version of its state. */

#include "family.h"

uint32_t remat_op_flag(const struct remat_node_info *node)
{
    bool may =
        node->op == REMAT_OP_adamw || node->op == REMAT_OP_sgd || node->op == REMAT_OP_assign;
    return may ? remat_node_operand(node, "flag") : REMAT_NONE;
}

/* state := value in its dtype. */
static remat_value assign(struct remat_builder *b, remat_value state, remat_value value)
{
    return remat_build2(b, REMAT_OP_assign, state, LIKE(value, state));
}

/* The same, and the optimizer's flag, if there is one, for the gradient. */
static remat_value assign_and_flag(struct remat_builder *b, const struct remat_node_info *info,
                                   const remat_value *inputs, remat_value value,
                                   remat_value gradient)
{
    uint32_t k = remat_op_flag(info);
    if (remat_is_none(k))
        return assign(b, inputs[0], value);
    remat_value all[] = {inputs[0], LIKE(value, inputs[0]), REMAT_NO_VALUE, gradient};
    all[2] = inputs[k];
    return remat_build(b, REMAT_OP_assign, all, 4, NULL, 0, NULL);
}

OP_EXPAND(sgd)
{
    remat_value p = F32(inputs[0]), g = inputs[1], lr = inputs[2];
    double decay = remat_node_number(node, "weight_decay");
    if (b->graph->values[p.i].shape.rank == 0)
        lr = remat_build_reshape(b, lr, NULL, 0);
    if (decay != 0)
        g = OP2(add, g, OP2(mul, p, NUMBER(decay)));
    remat_value new_p = OP2(sub, p, OP2(mul, g, lr));
    outputs[0] = assign_and_flag(b, node, inputs, new_p, inputs[1]);
}

OP_SHAPE(assign)
{
    return node->input_count == 3 ? INVALID(ctx, "a flag, but nothing that sets it") : REMAT_OK;
}

/* Coefficient k, in a shape that broadcasts to any parameter without adding an axis. */
static remat_value coefficient(struct remat_builder *b, remat_value coefficients, int64_t k,
                               uint32_t rank)
{
    remat_value slice = remat_build_slice(b, coefficients, 0, k, k + 1);
    return rank == 0 ? remat_build_reshape(b, slice, NULL, 0) : slice;
}

OP_SHAPE(adamw)
{
    remat_dtype dtype = remat_input(graph, node, 1)->dtype;
    REMAT_CHECK(remat_check_computed(ctx, graph, node, 1));
    for (uint32_t k = 0; k < 3; k++)
        outputs[k] =
            remat_typed(remat_input(graph, node, k)->dtype, *remat_input_shape(graph, node, k));
    return outputs[2].dtype == dtype ? REMAT_OK
                                     : INVALID(ctx, "inputs 1 and 2 have different types");
}

OP_EXPAND(adamw)
{
    remat_value p = F32(inputs[0]), m = F32(inputs[1]), v = F32(inputs[2]), g = inputs[3];
    uint32_t rank = b->graph->values[p.i].shape.rank;
    double beta1 = remat_node_number(node, "beta1"), beta2 = remat_node_number(node, "beta2");
    double epsilon = remat_node_number(node, "epsilon");
    bool decays = remat_node_number(node, "no_decay") == 0;
    remat_value decay = coefficient(b, inputs[4], decays ? 0 : 3, rank);
    remat_value step_size = coefficient(b, inputs[4], 1, rank);
    remat_value correction = coefficient(b, inputs[4], 2, rank);

    remat_value new_m = OP2(add, m, OP2(mul, OP2(sub, g, m), NUMBER(1 - beta1)));
    remat_value square = OP2(mul, OP2(mul, g, NUMBER(1 - beta2)), g);
    remat_value new_v = OP2(add, OP2(mul, v, NUMBER(beta2)), square);
    remat_value root = OP2(div, OP1(sqrt, new_v), correction);
    remat_value change = OP2(div, OP2(mul, new_m, step_size), OP2(add, root, NUMBER(epsilon)));
    remat_value new_p = OP2(sub, OP2(mul, p, decay), change);
    outputs[0] = assign_and_flag(b, node, inputs, new_p, g);
    outputs[1] = assign(b, inputs[1], new_m);
    outputs[2] = assign(b, inputs[2], new_v);
}
