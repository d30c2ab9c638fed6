/* Cross entropy of logits against class indices, averaged over the rows that count. The logarithm
 * of each row's sum of exponentials is kept; with it the gradient is one pass over the logits. */
#include "family.h"

OP_SHAPE(cross_entropy)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_check_float(ctx, graph, node, 0, 1, REMAT_ANY_RANK));
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

/* x where the target of its row counts, else 0. */
static remat_value counted(struct remat_builder *b, const struct remat_node_info *node,
                           remat_value targets, remat_value x)
{
    remat_value ignored = NUMBER((double)remat_node_int(node, "ignore_index", 0));
    return OP3(select, OP2(equal, targets, ignored), NUMBER(0), x);
}

/* 1 / the number of rows that count, [] or [1, 1]. */
static remat_value share_of(struct remat_builder *b, const struct remat_node_info *node,
                            remat_value targets)
{
    int64_t rows = remat_shape_elements(&b->graph->values[targets.i].shape);
    if (!remat_node_attribute(node, "ignore_index"))
        return NUMBER(1.0 / (double)rows);
    remat_value row = remat_build_reshape(b, targets, (int64_t[]){1, rows}, 2);
    remat_value count = OP1(row_sum, counted(b, node, row, NUMBER(1)));
    return OP2(div, NUMBER(1), OP2(maximum, count, NUMBER(1)));
}

OP_EXPAND(cross_entropy)
{
    remat_value x = F32(inputs[0]);
    int64_t rows = remat_shape_rows(&b->graph->values[x.i].shape);
    remat_value top = OP1(row_max, x);
    remat_value sum = OP1(row_sum, OP1(exp, OP2(sub, x, top)));
    remat_value log_sum = OP2(add, OP1(log, sum), top);
    remat_value picked = OP1(row_sum, OP3(select, one_hot(b, x, inputs[1]), x, NUMBER(0)));
    remat_value losses = OP2(sub, log_sum, picked);
    losses = remat_build_reshape(b, losses, (int64_t[]){1, rows}, 2);
    if (remat_node_attribute(info, "ignore_index"))
        losses =
            counted(b, info, remat_build_reshape(b, inputs[1], (int64_t[]){1, rows}, 2), losses);
    remat_value mean = OP2(mul, OP1(row_sum, losses), share_of(b, info, inputs[1]));
    outputs[0] = remat_build_reshape(b, mean, NULL, 0);
    outputs[1] = log_sum;
    return b->status;
}

OP_DERIVE(cross_entropy)
{
    remat_status st = REMAT_OK;
    struct remat_node_info n = b->graph->nodes[node.i];
    REMAT_TRY(remat_check_only_first(b, node, out_gradients));
    remat_value x = F32(n.inputs[0]), share = share_of(b, &n, n.inputs[1]);
    share = remat_build_product(b, out_gradients[0], remat_build_reshape(b, share, NULL, 0));
    if (remat_node_attribute(&n, "ignore_index")) {
        struct remat_shape row = b->graph->values[n.outputs[1].i].shape;
        remat_value targets = remat_build_reshape(b, n.inputs[1], row.dims, row.rank);
        share = counted(b, &n, targets, share);
    }
    remat_value softmax = OP1(exp, OP2(sub, x, n.outputs[1]));
    remat_value dx = OP2(mul, OP2(sub, softmax, one_hot(b, x, n.inputs[1])), share);
    in_gradients[0] = LIKE(dx, n.inputs[0]);
    st = b->status;
fail:
    return st;
}
