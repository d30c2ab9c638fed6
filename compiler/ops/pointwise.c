/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise arithmetic with operands that broadcast as in NumPy. A derivative is the formula on
 * the result's shape, then summed over the axes along which its operand was repeated. Arithmetic is
 * f32. Of rounded operands results are rounded: the pass expand puts casts around all ops but add,
 * which kernels round themselves, so that sums of gradients and residuals are one node in any
 * dtype. Comparisons of any operands give f32, which is what a condition is. */
#include "family.h"

#include <assert.h>
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
    uint32_t condition = node->op == REMAT_OP_select ? 0 : REMAT_NONE;
    remat_dtype first = remat_input(graph, node, node->op == REMAT_OP_select)->dtype;
    outputs[0].dtype = !compares && remat_dtype_is_rounded(first) ? first : REMAT_F32;
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_dtype dtype = remat_input(graph, node, k)->dtype;
        remat_dtype expected = k == condition ? REMAT_F32 : outputs[0].dtype;
        if (!compares || (dtype != REMAT_I32 && !remat_dtype_is_rounded(dtype)))
            REMAT_CHECK(remat_check_input(ctx, graph, node, k, expected, 0, REMAT_ANY_RANK));
        const struct remat_shape *shape = remat_input_shape(graph, node, k);
        REMAT_CHECK(broadcast(ctx, &outputs[0].shape, shape, &outputs[0].shape));
    }
    return REMAT_OK;
}

/* --- cost --- */

OP_FLOPS(zero)
{
    return 0;
}

/* Per element of a composite op, roughly: what its expansion adds up to. */
static const uint8_t flops_each[REMAT_OP_COUNT] = {
    [REMAT_OP_scale] = 1,     [REMAT_OP_rope] = 3,     [REMAT_OP_mask_causal] = 3,
    [REMAT_OP_sgd] = 4,       [REMAT_OP_rms_norm] = 5, [REMAT_OP_layer_norm] = 9,
    [REMAT_OP_dropout] = 12,  [REMAT_OP_gelu] = 30,    [REMAT_OP_relu] = 1,
    [REMAT_OP_silu] = 22,     [REMAT_OP_softmax] = 22, [REMAT_OP_cross_entropy] = 22,
    [REMAT_OP_softplus] = 45, [REMAT_OP_expm1] = 45,   [REMAT_OP_swiglu] = 23,
    [REMAT_OP_adamw] = 20,    [REMAT_OP_mean] = 1,
};

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
    assert(instruction || flops_each[node->op] > 0);
    uint64_t each =
        instruction ? remat_opcode_flops(remat_op_info(node->op)->executor) : flops_each[node->op];
    return remat_mul_saturated(elements, each);
}

/* --- derivatives --- */

/* Of the formulas: operands x and y, result z, and its gradient g, in f32. */
struct terms {
    remat_value x, y, z, g;
};

static struct terms terms_of(struct remat_builder *b, const struct remat_node_info *node,
                             remat_value gradient)
{
    struct terms f = {.g = F32(gradient)};
    bool selects = node->op == REMAT_OP_select;
    f.x = F32(node->inputs[0]);
    f.y = node->input_count > 1 && !selects ? F32(node->inputs[1]) : REMAT_NO_VALUE;
    f.z = F32(node->outputs[0]);
    return f;
}
#define X f.x
#define Y f.y
#define Z f.z
#define G f.g

/* Sets the gradient of input k, summed to its shape. */
static void give(struct remat_builder *b, const struct remat_node_info *node, uint32_t k,
                 remat_value gradient, remat_value *in_gradients)
{
    struct remat_shape shape = *remat_input_shape(b->graph, node, k);
    in_gradients[k] = LIKE(remat_build_sum_to(b, gradient, &shape), node->inputs[k]);
}
#define GIVE(k, formula) give(b, node, k, formula, in_gradients)

/* A row of two operands, which may be repeated; from left to right. */
#define DERIVE_BINARY(op, first, second)                                                           \
    OP_DERIVE(op)                                                                                  \
    {                                                                                              \
        struct terms f = terms_of(b, node, gradient);                                              \
        GIVE(0, first);                                                                            \
        GIVE(1, second);                                                                           \
    }

OP_DERIVE(add)
{
    GIVE(0, gradient);
    GIVE(1, gradient);
}

DERIVE_BINARY(sub, G, OP1(neg, G))
DERIVE_BINARY(mul, remat_build_product(b, G, Y), remat_build_product(b, G, X))
DERIVE_BINARY(div, OP2(div, G, Y), OP1(neg, OP2(div, remat_build_product(b, G, Z), Y)))

/* The gradient goes to input `first` where the condition holds, else to the one after it. */
#define DERIVE_EITHER(op, first, formula)                                                          \
    OP_DERIVE(op)                                                                                  \
    {                                                                                              \
        struct terms f = terms_of(b, node, gradient);                                              \
        remat_value condition = formula;                                                           \
        GIVE(first, OP3(select, condition, G, NUMBER(0)));                                         \
        GIVE((first) + 1, OP3(select, condition, NUMBER(0), G));                                   \
    }

DERIVE_EITHER(maximum, 0, OP2(less, Y, X))
DERIVE_EITHER(minimum, 0, OP2(less, X, Y))
DERIVE_EITHER(select, 1, X)

OP_DERIVE(zero)
{
}

/* A row of one operand, which has the shape of the result or is summed to it. */
#define DERIVE_UNARY(op, formula)                                                                  \
    OP_DERIVE(op)                                                                                  \
    {                                                                                              \
        struct terms f = terms_of(b, node, gradient);                                              \
        in_gradients[0] = LIKE(formula, node->inputs[0]);                                          \
    }

OP_DERIVE(sum)
{
    in_gradients[0] = remat_build_repeat(b, gradient, node->inputs[0]);
}

DERIVE_UNARY(neg, OP1(neg, G))
DERIVE_UNARY(exp, remat_build_product(b, G, Z))
DERIVE_UNARY(log, OP2(div, G, X))
DERIVE_UNARY(sqrt, OP2(div, remat_build_product(b, G, NUMBER(0.5)), Z))
DERIVE_UNARY(tanh, remat_build_product(b, G, OP2(sub, NUMBER(1), OP2(mul, Z, Z))))
DERIVE_UNARY(sigmoid, remat_build_product(b, G, OP2(mul, Z, OP2(sub, NUMBER(1), Z))))

OP_DERIVE(rsqrt)
{
    struct terms f = terms_of(b, node, gradient);
    remat_value cube = OP2(mul, OP2(mul, Z, Z), Z);
    remat_value dx = OP2(mul, remat_build_product(b, G, NUMBER(-0.5)), cube);
    in_gradients[0] = LIKE(dx, node->inputs[0]);
}

OP_DERIVE(erf)
{
    struct terms f = terms_of(b, node, gradient);
    remat_value bell = OP1(exp, OP1(neg, OP2(mul, X, X)));
    remat_value dx = OP2(mul, remat_build_product(b, G, NUMBER(M_2_SQRTPI)), bell);
    in_gradients[0] = LIKE(dx, node->inputs[0]);
}
