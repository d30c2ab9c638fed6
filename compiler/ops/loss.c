/* Cross entropy of logits against class indices, averaged over the rows. The logarithm of each
 * row's sum of exponentials is kept; with it the gradient is one pass over the logits. */
#include "family.h"

OP_SHAPE(cross_entropy)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_check_input(ctx, graph, node, 0, REMAT_F32, 1, REMAT_ANY_RANK));
    REMAT_TRY(remat_check_input(ctx, graph, node, 1, REMAT_I32, 0, REMAT_ANY_RANK));
    struct remat_shape shape = *remat_input_shape(graph, node, 0), leading = shape;
    leading.dims[--leading.rank] = 0;
    REMAT_TRY(remat_check_shape(ctx, graph, node, 1, &leading));
    shape.dims[shape.rank - 1] = 1;
    outputs[0].dtype = outputs[1].dtype = REMAT_F32;
    outputs[1].shape = shape;
fail:
    return st;
}

/* 1 at each row's target, else 0. */
static remat_value one_hot(struct remat_builder *b, remat_value logits, remat_value targets)
{
    struct remat_shape shape = b->graph->values[logits.i].shape;
    shape.dims[shape.rank - 1] = 1;
    remat_value column = OP1(column, logits);
    return OP2(equal, column, remat_build_reshape(b, targets, shape.dims, shape.rank));
}

OP_EXPAND(cross_entropy)
{
    remat_value x = inputs[0];
    int64_t rows = remat_shape_rows(&b->graph->values[x.i].shape);
    remat_value top = OP1(row_max, x);
    remat_value sum = OP1(row_sum, OP1(exp, OP2(sub, x, top)));
    remat_value log_sum = OP2(add, OP1(log, sum), top);
    remat_value picked = OP1(row_sum, OP3(select, one_hot(b, x, inputs[1]), x, NUMBER(0)));
    remat_value losses = OP2(sub, log_sum, picked);
    remat_value total = OP1(row_sum, remat_build_reshape(b, losses, (int64_t[]){1, rows}, 2));
    remat_value mean = OP2(mul, total, NUMBER(1.0 / (double)rows));
    outputs[0] = remat_build_reshape(b, mean, NULL, 0);
    outputs[1] = log_sum;
    return b->status;
}

OP_DERIVE(cross_entropy)
{
    remat_status st = REMAT_OK;
    struct remat_node_info n = b->graph->nodes[node.i];
    REMAT_TRY(remat_check_only_first(b, node, out_gradients));
    remat_value x = n.inputs[0];
    int64_t rows = remat_shape_rows(remat_input_shape(b->graph, &n, 0));
    remat_value share = remat_build_product(b, out_gradients[0], NUMBER(1.0 / (double)rows));
    remat_value softmax = OP1(exp, OP2(sub, x, n.outputs[1]));
    in_gradients[0] = OP2(mul, OP2(sub, softmax, one_hot(b, x, n.inputs[1])), share);
    st = b->status;
fail:
    return st;
}
