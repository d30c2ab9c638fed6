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
        if (x != y && x != 1 && y != 1) {
            char a_text[REMAT_SHAPE_TEXT], b_text[REMAT_SHAPE_TEXT];
            return remat_error(ctx, REMAT_ERROR_INVALID, "shapes %s and %s do not broadcast",
                               remat_shape_text(a, a_text), remat_shape_text(b, b_text));
        }
        result.dims[lead + d] = x == 1 ? y : x;
    }
    *out = result;
    return REMAT_OK;
}

OP_SHAPE(pointwise)
{
    remat_status st = REMAT_OK;
    bool compares = node->op == REMAT_OP_equal || node->op == REMAT_OP_less;
    bool sums = node->op == REMAT_OP_add && remat_input(graph, node, 0)->dtype == REMAT_BF16;
    outputs[0].dtype = sums ? REMAT_BF16 : REMAT_F32;
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_dtype dtype = remat_input(graph, node, k)->dtype;
        if (!compares || dtype != REMAT_I32)
            REMAT_TRY(remat_check_input(ctx, graph, node, k, outputs[0].dtype, 0, REMAT_ANY_RANK));
        const struct remat_shape *shape = remat_input_shape(graph, node, k);
        REMAT_TRY(broadcast(ctx, &outputs[0].shape, shape, &outputs[0].shape));
    }
fail:
    return st;
}

OP_SHAPE(constant)
{
    outputs[0].dtype = REMAT_F32;
    return remat_check_attributes(ctx, node, "value");
}

OP_SHAPE(column)
{
    remat_dtype dtype = remat_input(graph, node, 0)->dtype;
    outputs[0].dtype = REMAT_F32;
    outputs[0].shape = *remat_input_shape(graph, node, 0);
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

/* What the formulas need: operands x, y, result z and its gradient g. */
struct operands {
    remat_value x, y, z, g;
};

static struct operands operands_of(const struct remat_builder *b, remat_node node,
                                   const remat_value *out_gradients)
{
    const struct remat_node_info *n = &b->graph->nodes[node.i];
    return (struct operands){n->inputs[0], n->input_count > 1 ? n->inputs[1] : REMAT_NO_VALUE,
                             n->outputs[0], out_gradients[0]};
}

/* Sets the gradient of input k, summed to its shape. */
static void give(struct remat_builder *b, remat_node node, uint32_t k, remat_value gradient,
                 remat_value *in_gradients)
{
    if (b->status != REMAT_OK)
        return;
    struct remat_shape shape = *remat_input_shape(b->graph, &b->graph->nodes[node.i], k);
    in_gradients[k] = remat_build_sum_to(b, gradient, &shape);
}

OP_DERIVE(zero)
{
    return REMAT_OK;
}

OP_DERIVE(add)
{
    give(b, node, 0, out_gradients[0], in_gradients);
    give(b, node, 1, out_gradients[0], in_gradients);
    return b->status;
}

OP_DERIVE(sub)
{
    give(b, node, 0, out_gradients[0], in_gradients);
    give(b, node, 1, OP1(neg, out_gradients[0]), in_gradients);
    return b->status;
}

OP_DERIVE(mul)
{
    struct operands o = operands_of(b, node, out_gradients);
    give(b, node, 0, remat_build_product(b, o.g, o.y), in_gradients);
    give(b, node, 1, remat_build_product(b, o.g, o.x), in_gradients);
    return b->status;
}

OP_DERIVE(div)
{
    struct operands o = operands_of(b, node, out_gradients);
    give(b, node, 0, OP2(div, o.g, o.y), in_gradients);
    give(b, node, 1, OP1(neg, OP2(div, remat_build_product(b, o.g, o.z), o.y)), in_gradients);
    return b->status;
}

/* The gradient goes to input `first` where `condition` holds, else to the one after it. */
static remat_status give_either(struct remat_builder *b, remat_node node, remat_value condition,
                                uint32_t first, remat_value gradient, remat_value *in_gradients)
{
    give(b, node, first, OP3(select, condition, gradient, NUMBER(0)), in_gradients);
    give(b, node, first + 1, OP3(select, condition, NUMBER(0), gradient), in_gradients);
    return b->status;
}

OP_DERIVE(maximum)
{
    struct operands o = operands_of(b, node, out_gradients);
    return give_either(b, node, OP2(less, o.y, o.x), 0, o.g, in_gradients);
}

OP_DERIVE(minimum)
{
    struct operands o = operands_of(b, node, out_gradients);
    return give_either(b, node, OP2(less, o.x, o.y), 0, o.g, in_gradients);
}

OP_DERIVE(select)
{
    struct operands o = operands_of(b, node, out_gradients);
    return give_either(b, node, o.x, 1, o.g, in_gradients);
}

OP_DERIVE(neg)
{
    in_gradients[0] = OP1(neg, out_gradients[0]);
    return b->status;
}

OP_DERIVE(exp)
{
    struct operands o = operands_of(b, node, out_gradients);
    in_gradients[0] = remat_build_product(b, o.g, o.z);
    return b->status;
}

OP_DERIVE(log)
{
    struct operands o = operands_of(b, node, out_gradients);
    in_gradients[0] = OP2(div, o.g, o.x);
    return b->status;
}

OP_DERIVE(sqrt)
{
    struct operands o = operands_of(b, node, out_gradients);
    in_gradients[0] = OP2(div, remat_build_product(b, o.g, NUMBER(0.5)), o.z);
    return b->status;
}

OP_DERIVE(rsqrt)
{
    struct operands o = operands_of(b, node, out_gradients);
    remat_value cube = OP2(mul, OP2(mul, o.z, o.z), o.z);
    in_gradients[0] = OP2(mul, remat_build_product(b, o.g, NUMBER(-0.5)), cube);
    return b->status;
}

OP_DERIVE(tanh)
{
    struct operands o = operands_of(b, node, out_gradients);
    in_gradients[0] = remat_build_product(b, o.g, OP2(sub, NUMBER(1), OP2(mul, o.z, o.z)));
    return b->status;
}

OP_DERIVE(sigmoid)
{
    struct operands o = operands_of(b, node, out_gradients);
    remat_value slope = OP2(mul, o.z, OP2(sub, NUMBER(1), o.z));
    in_gradients[0] = remat_build_product(b, o.g, slope);
    return b->status;
}

OP_DERIVE(erf)
{
    struct operands o = operands_of(b, node, out_gradients);
    remat_value bell = OP1(exp, OP1(neg, OP2(mul, o.x, o.x)));
    in_gradients[0] = OP2(mul, remat_build_product(b, o.g, NUMBER(M_2_SQRTPI)), bell);
    return b->status;
}
