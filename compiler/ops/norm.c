/* Layer normalisation. The gradient reads the saved mean and reciprocal deviation; it computes the
 * normalised x once for dx and once for gamma, so that each can live in its own kernel. */
#include "family.h"

#define EPSILON 1e-5

OP_SHAPE(layer_norm)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_check_input(ctx, graph, node, 0, REMAT_F32, 1, REMAT_ANY_RANK));
    const struct remat_shape *x = remat_input_shape(graph, node, 0);
    struct remat_shape columns = {1, {x->dims[x->rank - 1]}};
    for (uint32_t k = 1; k < 3; k++) {
        REMAT_TRY(remat_check_input(ctx, graph, node, k, REMAT_F32, 1, 1));
        REMAT_TRY(remat_check_shape(ctx, graph, node, k, &columns));
    }
    if (remat_node_float(node, "epsilon", EPSILON) < 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "attribute \"epsilon\" is negative");
    for (uint32_t k = 0; k < 3; k++) {
        outputs[k].dtype = REMAT_F32;
        outputs[k].shape = *x;
        outputs[k].shape.dims[x->rank - 1] = k == 0 ? x->dims[x->rank - 1] : 1;
    }
fail:
    return st;
}

OP_EXPAND(layer_norm)
{
    const struct remat_shape *shape = &b->graph->values[inputs[0].i].shape;
    double share = 1.0 / (double)shape->dims[shape->rank - 1];
    double epsilon = remat_node_float(info, "epsilon", EPSILON);
    remat_value x = inputs[0], gamma = inputs[1], beta = inputs[2];
    remat_value mean = OP2(mul, OP1(row_sum, x), NUMBER(share));
    remat_value d = OP2(sub, x, mean);
    remat_value variance = OP2(mul, OP1(row_sum, OP2(mul, d, d)), NUMBER(share));
    remat_value rstd = OP1(rsqrt, OP2(add, variance, NUMBER(epsilon)));
    outputs[0] = OP2(add, OP2(mul, OP2(mul, d, rstd), gamma), beta);
    outputs[1] = mean;
    outputs[2] = rstd;
    return b->status;
}

static remat_value normalised(struct remat_builder *b, const struct remat_node_info *n)
{
    return OP2(mul, OP2(sub, n->inputs[0], n->outputs[1]), n->outputs[2]);
}

/* With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean of g - h (mean of g h)). */
OP_DERIVE(layer_norm)
{
    remat_status st = REMAT_OK;
    struct remat_node_info n = b->graph->nodes[node.i];
    REMAT_TRY(remat_check_only_first(b, node, out_gradients));
    const struct remat_shape *shape = remat_input_shape(b->graph, &n, 0);
    double share = 1.0 / (double)shape->dims[shape->rank - 1];
    in_gradients[1] = OP1(column_sum, OP2(mul, out_gradients[0], normalised(b, &n)));
    in_gradients[2] = OP1(column_sum, out_gradients[0]);

    remat_value h = normalised(b, &n);
    remat_value g = OP2(mul, out_gradients[0], n.inputs[1]);
    remat_value g_mean = OP2(mul, OP1(row_sum, g), NUMBER(share));
    remat_value gh_mean = OP2(mul, OP1(row_sum, OP2(mul, g, h)), NUMBER(share));
    remat_value centered = OP2(sub, OP2(sub, g, g_mean), OP2(mul, h, gh_mean));
    in_gradients[0] = OP2(mul, centered, n.outputs[2]);
    st = b->status;
fail:
    return st;
}
