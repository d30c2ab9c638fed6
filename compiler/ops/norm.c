/* SPDX-License-Identifier: Apache-2.0 */
/* Layer and root-mean-square normalisation. The gradients read the saved statistics, which are f32;
 * they compute the normalised x once for dx and once for gamma, so that each can live in its own
 * kernel. */
#include "family.h"

/* Of each row. */
static remat_value mean_of(struct remat_builder *b, remat_value x)
{
    const struct remat_shape *shape = &b->graph->values[x.i].shape;
    double share = 1.0 / (double)shape->dims[shape->rank - 1];
    return OP2(mul, OP1(row_sum, x), NUMBER(share));
}

/* An operand that may be absent, in f32. */
static remat_value wide(struct remat_builder *b, remat_value x)
{
    return remat_is_none(x.i) ? x : F32(x);
}

/* x gamma; without a gamma x. */
static remat_value scaled(struct remat_builder *b, remat_value x, remat_value gamma)
{
    return remat_is_none(gamma.i) ? x : OP2(mul, x, gamma);
}

OP_EXPAND(layer_norm)
{
    double epsilon = remat_node_number(node, "epsilon");
    remat_value x = F32(inputs[0]);
    remat_value gamma = wide(b, OPTIONAL(inputs, "gamma"));
    remat_value beta = wide(b, OPTIONAL(inputs, "beta"));
    remat_value mean = mean_of(b, x);
    remat_value d = OP2(sub, x, mean);
    remat_value variance = mean_of(b, OP2(mul, d, d));
    remat_value rstd = OP1(rsqrt, OP2(add, variance, NUMBER(epsilon)));
    remat_value y = scaled(b, OP2(mul, d, rstd), gamma);
    if (!remat_is_none(beta.i))
        y = OP2(add, y, beta);
    outputs[0] = LIKE(y, inputs[0]);
    outputs[1] = mean;
    outputs[2] = rstd;
}

static remat_value normalised(struct remat_builder *b, const struct remat_node_info *n)
{
    return OP2(mul, OP2(sub, F32(n->inputs[0]), n->outputs[1]), n->outputs[2]);
}

/* With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean of g - h (mean of g h)). */
OP_DERIVE(layer_norm)
{
    remat_value dy = F32(gradient);
    uint32_t gamma = remat_node_operand(node, "gamma"), beta = remat_node_operand(node, "beta");
    if (!remat_is_none(gamma)) {
        remat_value d_gamma = OP1(column_sum, OP2(mul, dy, normalised(b, node)));
        in_gradients[gamma] = LIKE(d_gamma, node->inputs[gamma]);
    }
    if (!remat_is_none(beta))
        in_gradients[beta] = LIKE(OP1(column_sum, dy), node->inputs[beta]);

    remat_value h = normalised(b, node);
    remat_value g = scaled(b, dy, wide(b, OPTIONAL(node->inputs, "gamma")));
    remat_value g_mean = mean_of(b, g), gh_mean = mean_of(b, OP2(mul, g, h));
    remat_value centered = OP2(sub, OP2(sub, g, g_mean), OP2(mul, h, gh_mean));
    in_gradients[0] = LIKE(OP2(mul, centered, node->outputs[2]), node->inputs[0]);
}

OP_EXPAND(rms_norm)
{
    remat_value x = F32(inputs[0]), gamma = wide(b, OPTIONAL(inputs, "gamma"));
    remat_value mean = mean_of(b, OP2(mul, x, x));
    remat_value epsilon = NUMBER(remat_node_number(node, "epsilon"));
    remat_value rstd = OP1(rsqrt, OP2(add, mean, epsilon));
    outputs[0] = LIKE(scaled(b, OP2(mul, x, rstd), gamma), inputs[0]);
    outputs[1] = rstd;
}

/* With h = x rstd and g = dy gamma: dx = rstd (g - h (mean of g h)). */
OP_DERIVE(rms_norm)
{
    remat_value x = F32(node->inputs[0]), dy = F32(gradient), rstd = node->outputs[1];
    remat_value gamma = OPTIONAL(node->inputs, "gamma");
    if (!remat_is_none(gamma.i)) {
        remat_value d_gamma = OP1(column_sum, OP2(mul, dy, OP2(mul, x, rstd)));
        in_gradients[1] = LIKE(d_gamma, gamma);
    }
    remat_value h = OP2(mul, x, rstd);
    remat_value g = scaled(b, dy, wide(b, gamma));
    remat_value mean = mean_of(b, OP2(mul, g, h));
    remat_value dx = OP2(mul, OP2(sub, g, OP2(mul, h, mean)), rstd);
    in_gradients[0] = LIKE(dx, node->inputs[0]);
}
