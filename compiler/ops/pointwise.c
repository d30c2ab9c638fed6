/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise arithmetic with operands that broadcast as in NumPy. A derivative is the formula on
 * the result's shape, then summed over the axes along which its operand was repeated. Arithmetic is
 * f32; add takes two bf16 operands, too, and rounds the sum, so that sums of gradients and
 * residuals are one node in any dtype. */
#include "family.h"

#include <math.h>

static remat_status broadcast(remat_context *ctx, const struct remat_shape *a,
                              const struct remat_shape *b, struct remat_shape *out)
{
    const struct remat_shape *longer = a->rank >= b->rank ? a : b, *other = longer == a ? b : a;
    uint32_t lead = longer->rank - other->rank;
    struct remat_shape result = *longer;
    for (uint32_t d = 0; d < other->rank; d++) {
        int64_t x = longer->dims[lead + d], y = other->dims[d];
        if (x != y && x != 1 && y != 1)
            return INVALID(ctx, "shapes %s and %s do not broadcast", SHAPE_TEXT(a), SHAPE_TEXT(b));
        result.dims[lead + d] = x == 1 ? y : x;
    }
    *out = result;
    return REMAT_OK;
}

OP_SHAPE(pointwise)
{
    bool compares = node->op == REMAT_OP_equal || node->op == REMAT_OP_less;
    bool sums = node->op == REMAT_OP_add && remat_input(graph, node, 0)->dtype == REMAT_BF16;
    outputs[0].dtype = sums ? REMAT_BF16 : REMAT_F32;
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_dtype dtype = remat_input(graph, node, k)->dtype;
        if (!compares || dtype != REMAT_I32)
            REMAT_CHECK(
                remat_check_input(ctx, graph, node, k, outputs[0].dtype, 0, REMAT_ANY_RANK));
        const struct remat_shape *shape = remat_input_shape(graph, node, k);
        REMAT_CHECK(broadcast(ctx, &outputs[0].shape, shape, &outputs[0].shape));
    }
    return REMAT_OK;
}

OP_SHAPE(constant)
{
    outputs[0].dtype = REMAT_F32;
    return REMAT_OK;
}

OP_SHAPE(column)
{
    remat_dtype dtype = remat_input(graph, node, 0)->dtype;
    outputs[0] = remat_typed(REMAT_F32, *remat_input_shape(graph, node, 0));
    return remat_check_input(ctx, graph, node, 0, dtype, 1, REMAT_ANY_RANK);
}

/* --- cost --- */

OP_FLOPS(zero)
{
    return 0;
}

/* Per element of a composite op or named kernel, roughly: what its expansion adds up to. */
static uint64_t flops_each(uint16_t op)
{
    switch (op) {
    case REMAT_OP_scale:
        return 1;
    case REMAT_OP_rope:
    case REMAT_OP_mask_causal:
        return 3;
    case REMAT_OP_sgd:
        return 4;
    case REMAT_OP_rms_norm:
        return 5;
    case REMAT_OP_layer_norm:
        return 9;
    case REMAT_OP_dropout:
        return 12;
    case REMAT_OP_gelu:
        return 30;
    case REMAT_OP_silu:
    case REMAT_OP_softmax:
    case REMAT_OP_cross_entropy:
        return 22;
    case REMAT_OP_swiglu:
        return 23;
    case REMAT_OP_adamw:
        return 20;
    default:
        return 1;
    }
}

OP_FLOPS(pointwise)
{
    uint64_t elements = 1;
    for (uint32_t k = 0; k < node->input_count + node->output_count; k++) {
        remat_value value =
            k < node->input_count ? node->inputs[k] : node->outputs[k - node->input_count];
        uint64_t n = (uint64_t)remat_shape_elements(&graph->values[value.i].shape);
        elements = n > elements ? n : elements;
    }
    bool instruction = remat_op_has(node->op, REMAT_FACT_POINTWISE | REMAT_FACT_ROW_REDUCE |
                                                  REMAT_FACT_COLUMN_REDUCE);
    uint64_t each =
        instruction ? remat_opcode_flops(remat_op_info(node->op)->executor) : flops_each(node->op);
    return remat_mul_saturated(elements, each);
}

/* --- derivatives --- */

/* Of the formulas: operands x and y, result z, and its gradient g. */
#define X node->inputs[0]
#define Y node->inputs[1]
#define Z node->outputs[0]
#define G gradient

/* Sets the gradient of input k, summed to its shape. */
static void give(struct remat_builder *b, const struct remat_node_info *node, uint32_t k,
                 remat_value gradient, remat_value *in_gradients)
{
    struct remat_shape shape = *remat_input_shape(b->graph, node, k);
    in_gradients[k] = remat_build_sum_to(b, gradient, &shape);
}

OP_DERIVE(zero)
{
}

OP_DERIVE(add)
{
    give(b, node, 0, gradient, in_gradients);
    give(b, node, 1, gradient, in_gradients);
}

OP_DERIVE(sub)
{
    give(b, node, 0, gradient, in_gradients);
    give(b, node, 1, OP1(neg, gradient), in_gradients);
}

OP_DERIVE(mul)
{
    give(b, node, 0, remat_build_product(b, G, Y), in_gradients);
    give(b, node, 1, remat_build_product(b, G, X), in_gradients);
}

OP_DERIVE(div)
{
    give(b, node, 0, OP2(div, G, Y), in_gradients);
    give(b, node, 1, OP1(neg, OP2(div, remat_build_product(b, G, Z), Y)), in_gradients);
}

/* The gradient goes to input `first` where `condition` holds, else to the one after it. */
static void give_either(struct remat_builder *b, const struct remat_node_info *node,
                        remat_value condition, uint32_t first, remat_value gradient,
                        remat_value *in_gradients)
{
    give(b, node, first, OP3(select, condition, gradient, NUMBER(0)), in_gradients);
    give(b, node, first + 1, OP3(select, condition, NUMBER(0), gradient), in_gradients);
}

OP_DERIVE(maximum)
{
    give_either(b, node, OP2(less, Y, X), 0, G, in_gradients);
}

OP_DERIVE(minimum)
{
    give_either(b, node, OP2(less, X, Y), 0, G, in_gradients);
}

OP_DERIVE(select)
{
    give_either(b, node, X, 1, G, in_gradients);
}

OP_DERIVE(neg)
{
    in_gradients[0] = OP1(neg, gradient);
}

OP_DERIVE(exp)
{
    in_gradients[0] = remat_build_product(b, G, Z);
}

OP_DERIVE(log)
{
    in_gradients[0] = OP2(div, G, X);
}

OP_DERIVE(sqrt)
{
    in_gradients[0] = OP2(div, remat_build_product(b, G, NUMBER(0.5)), Z);
}

OP_DERIVE(rsqrt)
{
    remat_value cube = OP2(mul, OP2(mul, Z, Z), Z);
    in_gradients[0] = OP2(mul, remat_build_product(b, G, NUMBER(-0.5)), cube);
}

OP_DERIVE(tanh)
{
    in_gradients[0] = remat_build_product(b, G, OP2(sub, NUMBER(1), OP2(mul, Z, Z)));
}

OP_DERIVE(sigmoid)
{
    remat_value slope = OP2(mul, Z, OP2(sub, NUMBER(1), Z));
    in_gradients[0] = remat_build_product(b, G, slope);
}

OP_DERIVE(erf)
{
    remat_value bell = OP1(exp, OP1(neg, OP2(mul, X, X)));
    in_gradients[0] = OP2(mul, remat_build_product(b, G, NUMBER(M_2_SQRTPI)), bell);
}
