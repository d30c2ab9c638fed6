/* SPDX-License-Identifier: Apache-2.0 */
/* Activations. The tanh form of gelu, x (1 + tanh u) / 2, is x sigmoid(2 u): one exponential and no
 * cancellation where the result is small. */
#include "family.h"

#include <math.h>

/* 2 u = x (LINEAR + CUBIC x^2) */
#define LINEAR (2 * 0.7978845608028654) /* sqrt(2 / pi) */
#define CUBIC  (LINEAR * 0.044715)

/* The factor of x in gelu, for a square of x in the tanh form. */
static remat_value tanh_gate(struct remat_builder *b, remat_value x, remat_value square)
{
    remat_value slope = OP2(add, OP2(mul, square, NUMBER(CUBIC)), NUMBER(LINEAR));
    return OP1(sigmoid, OP2(mul, x, slope));
}

static remat_value erf_gate(struct remat_builder *b, remat_value x)
{
    remat_value e = OP1(erf, OP2(mul, x, NUMBER(M_SQRT1_2)));
    return OP2(add, OP2(mul, e, NUMBER(0.5)), NUMBER(0.5));
}

OP_EXPAND(gelu)
{
    remat_value x = F32(inputs[0]);
    remat_value gate =
        remat_node_int(node, "approximate", 0) ? tanh_gate(b, x, OP2(mul, x, x)) : erf_gate(b, x);
    outputs[0] = LIKE(OP2(mul, x, gate), inputs[0]);
}

/* s + x s (1 - s) (2 u)' = s (1 + x (1 - s) (LINEAR + 3 CUBIC x^2)) */
static remat_value tanh_derivative(struct remat_builder *b, remat_value x)
{
    remat_value square = OP2(mul, x, x);
    remat_value s = tanh_gate(b, x, square);
    remat_value slope = OP2(add, OP2(mul, square, NUMBER(3 * CUBIC)), NUMBER(LINEAR));
    remat_value rest = OP2(mul, OP2(mul, x, OP2(sub, NUMBER(1), s)), slope);
    return OP2(mul, s, OP2(add, rest, NUMBER(1)));
}

/* gate + x exp(-x^2 / 2) / sqrt(2 pi) */
static remat_value erf_derivative(struct remat_builder *b, remat_value x)
{
    remat_value bell = OP1(exp, OP2(mul, OP2(mul, x, x), NUMBER(-0.5)));
    remat_value density = OP2(mul, bell, NUMBER(0.5 * M_SQRT1_2 * M_2_SQRTPI));
    return OP2(add, erf_gate(b, x), OP2(mul, x, density));
}

OP_DERIVE(gelu)
{
    remat_value x = F32(node->inputs[0]), g = F32(gradient);
    remat_value derivative =
        remat_node_int(node, "approximate", 0) ? tanh_derivative(b, x) : erf_derivative(b, x);
    in_gradients[0] = LIKE(remat_build_product(b, g, derivative), node->inputs[0]);
}

/* log(1 + e) for e from 0 to 1. What rounding 1 + e loses, log(u) / (u - 1) loses alike (Kahan). */
static remat_value log_one_plus(struct remat_builder *b, remat_value e)
{
    remat_value u = OP2(add, e, NUMBER(1));
    remat_value quotient = OP2(div, OP2(mul, OP1(log, u), e), OP2(sub, u, NUMBER(1)));
    return OP3(select, OP2(equal, u, NUMBER(1)), e, quotient);
}

/* The exponential does not overflow. */
OP_EXPAND(softplus)
{
    remat_value x = F32(inputs[0]);
    remat_value e = OP1(exp, OP2(minimum, x, OP1(neg, x)));
    remat_value y = OP2(add, OP2(maximum, NUMBER(0), x), log_one_plus(b, e));
    outputs[0] = LIKE(y, inputs[0]);
}

OP_DERIVE(softplus)
{
    remat_value s = OP1(sigmoid, F32(node->inputs[0]));
    in_gradients[0] = LIKE(OP2(mul, F32(gradient), s), node->inputs[0]);
}

/* With u = exp(x) it is u - 1, and where that loses digits (u - 1) x / log(u), or x if u is 1. */
OP_EXPAND(expm1)
{
    remat_value x = F32(inputs[0]), u = OP1(exp, x), d = OP2(sub, u, NUMBER(1));
    remat_value quotient = OP2(div, OP2(mul, d, x), OP1(log, u));
    remat_value exact = OP3(select, OP2(equal, u, NUMBER(1)), x, quotient);
    remat_value small = OP2(less, OP2(mul, x, x), NUMBER(1));
    outputs[0] = LIKE(OP3(select, small, exact, d), inputs[0]);
}

OP_DERIVE(expm1)
{
    remat_value u = OP1(exp, F32(node->inputs[0]));
    in_gradients[0] = LIKE(OP2(mul, F32(gradient), u), node->inputs[0]);
}

OP_EXPAND(relu)
{
    remat_value y = OP2(maximum, NUMBER(0), F32(inputs[0])); /* in this order a NaN stays */
    outputs[0] = LIKE(y, inputs[0]);
}

OP_DERIVE(relu)
{
    remat_value x = node->inputs[0];
    remat_value positive = OP2(less, NUMBER(0), F32(x));
    in_gradients[0] = LIKE(OP3(select, positive, F32(gradient), NUMBER(0)), x);
}

/* --- sigmoid linear units --- */

OP_EXPAND(silu)
{
    remat_value x = F32(inputs[0]);
    outputs[0] = LIKE(OP2(mul, x, OP1(sigmoid, x)), inputs[0]);
}

/* s (1 + x (1 - s)) */
static remat_value silu_derivative(struct remat_builder *b, remat_value x, remat_value s)
{
    remat_value rest = OP2(mul, x, OP2(sub, NUMBER(1), s));
    return OP2(mul, s, OP2(add, rest, NUMBER(1)));
}

OP_DERIVE(silu)
{
    remat_value input = node->inputs[0], x = F32(input);
    remat_value derivative = silu_derivative(b, x, OP1(sigmoid, x));
    in_gradients[0] = LIKE(OP2(mul, F32(gradient), derivative), input);
}

OP_EXPAND(swiglu)
{
    remat_value gate = F32(inputs[0]), x = F32(inputs[1]);
    outputs[0] = LIKE(OP2(mul, OP2(mul, gate, OP1(sigmoid, gate)), x), inputs[0]);
}

/* Both gradients use one sigmoid, so that one kernel computes them. */
OP_DERIVE(swiglu)
{
    remat_value gate = F32(node->inputs[0]), x = F32(node->inputs[1]), g = F32(gradient);
    remat_value s = OP1(sigmoid, gate);
    in_gradients[1] = LIKE(OP2(mul, g, OP2(mul, gate, s)), node->inputs[1]);
    remat_value derivative = silu_derivative(b, gate, s);
    in_gradients[0] = LIKE(OP2(mul, OP2(mul, g, x), derivative), node->inputs[0]);
}
