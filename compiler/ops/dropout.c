/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout. Its mask is a function of (seed, step, site, index): the backward pass recomputes it,
 * so it is never stored. */
#include "family.h"

OP_SHAPE(random)
{
    outputs[0].dtype = REMAT_F32;
    return remat_shape_of_attribute(ctx, node, &outputs[0].shape);
}

/* x / (1 - p), and 0 where the random number is below p. */
static remat_value drop(struct remat_builder *b, const struct remat_node_info *dropout,
                        remat_value x, remat_value rng)
{
    struct remat_shape shape = b->graph->values[x.i].shape;
    double p = remat_node_number(dropout, "p");
    const struct remat_attribute attributes[] = {
        remat_attribute_int("site", remat_node_int(dropout, "site", 0)),
        remat_attribute_ints("shape", shape.dims, shape.rank)};
    remat_value number = remat_build(b, REMAT_OP_random, &rng, 1, attributes, 2, NULL);
    remat_value dropped = OP2(less, number, NUMBER(p));
    remat_value kept = OP2(mul, F32(x), NUMBER(1 / (1 - p)));
    return LIKE(OP3(select, dropped, NUMBER(0), kept), x);
}

OP_EXPAND(dropout)
{
    outputs[0] = drop(b, node, inputs[0], inputs[1]);
}

OP_DERIVE(dropout)
{
    in_gradients[0] = drop(b, node, gradient, node->inputs[1]);
}
