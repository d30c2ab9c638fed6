/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of logits against class indices, averaged over the rows that count, or summed over
 * a count that is given: that of all microbatches, for one. The logarithm of each row's sum of
 * exponentials is kept; with it the gradient is one pass over the logits.
 *
 * linear_cross_entropy makes the logits too, a chunk of rows at a time. As the loss is a mean, what
 * each row has of its gradient is known before it, so a chunk's gradients follow its logits, which
 * nobody needs again. Each row has the bits that it has without chunks.
 *
 * To the loss, padding is -infinity, whose exponential is 0, and its gradient is 0. Zeros at the
 * end of a sum change none of its bits. */
#include "family.h"

#include <math.h>

/* x [.., V] in the columns of classes, `padding` in the others. */
static remat_value in_classes(struct remat_builder *b, const struct remat_node_info *node,
                              remat_value x, double padding)
{
    if (!remat_node_attribute(node, "classes"))
        return x;
    remat_value classes = NUMBER((double)remat_node_int(node, "classes", 0));
    return OP3(select, OP2(less, OP1(column, x), classes), x, NUMBER(padding));
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

/* 1 / the number of rows that count, [], [1] or [1, 1]; `inputs` are the node's, or stand for them.
 */
static remat_value share_of(struct remat_builder *b, const struct remat_node_info *node,
                            const remat_value *inputs, remat_value targets)
{
    int64_t rows = remat_shape_elements(&b->graph->values[targets.i].shape);
    remat_value count = OPTIONAL(inputs, "count");
    bool given = !remat_is_none(count.i);
    if (!given && !remat_node_attribute(node, "ignore_index"))
        return NUMBER(1.0 / (double)rows);
    if (!given) {
        remat_value row = remat_build_reshape(b, targets, (int64_t[]){1, rows}, 2);
        count = OP1(row_sum, counted(b, node, row, NUMBER(1)));
    }
    return OP2(div, NUMBER(1), OP2(maximum, count, NUMBER(1)));
}

/* The loss of each row, [1, rows] for x f32 [.., V]; 0 where the target does not count, infinite
 * where it is no class: the largest of no logits is -infinity. */
static remat_value row_losses(struct remat_builder *b, const struct remat_node_info *node,
                              remat_value x, remat_value targets, remat_value *out_log_sum)
{
    int64_t rows = remat_shape_rows(&b->graph->values[x.i].shape);
    x = in_classes(b, node, x, -INFINITY);
    remat_value top = OP1(row_max, x);
    remat_value sum = OP1(row_sum, OP1(exp, OP2(sub, x, top)));
    *out_log_sum = OP2(add, OP1(log, sum), top);
    remat_value picked = OP1(row_max, OP3(select, one_hot(b, x, targets), x, NUMBER(-INFINITY)));
    remat_value losses = OP2(sub, *out_log_sum, picked);
    losses = remat_build_reshape(b, losses, (int64_t[]){1, rows}, 2);
    if (remat_node_attribute(node, "ignore_index"))
        losses = counted(b, node, remat_build_reshape(b, targets, (int64_t[]){1, rows}, 2), losses);
    return losses;
}

/* dx of x f32 [.., V] when each row that counts has `share` [] of the gradient. */
static remat_value logits_gradient(struct remat_builder *b, const struct remat_node_info *node,
                                   remat_value x, remat_value targets, remat_value log_sum,
                                   remat_value share)
{
    if (remat_node_attribute(node, "ignore_index")) {
        struct remat_shape row = b->graph->values[log_sum.i].shape;
        share = counted(b, node, remat_build_reshape(b, targets, row.dims, row.rank), share);
    }
    remat_value softmax = OP1(exp, OP2(sub, x, log_sum));
    remat_value dx = OP2(mul, OP2(sub, softmax, one_hot(b, x, targets)), share);
    return in_classes(b, node, dx, 0);
}

/* The sum of each row, then of these. */
OP_EXPAND(mean)
{
    struct remat_shape shape = b->graph->values[inputs[0].i].shape;
    int64_t elements = remat_shape_elements(&shape), one[] = {1, 1};
    remat_value x = F32(inputs[0]);
    if (shape.rank == 0)
        x = remat_build_reshape(b, x, one, 2);
    remat_value sums = OP1(row_sum, x);
    int64_t rows[] = {1, remat_shape_elements(&b->graph->values[sums.i].shape)};
    remat_value sum = OP1(row_sum, remat_build_reshape(b, sums, rows, 2));
    outputs[0] = remat_build_reshape(b, OP2(mul, sum, NUMBER(1.0 / (double)elements)), NULL, 0);
}

OP_DERIVE(mean)
{
    int64_t elements = remat_shape_elements(remat_input_shape(b->graph, node, 0));
    remat_value each = remat_build_product(b, gradient, NUMBER(1.0 / (double)elements));
    each = remat_build_repeat(b, each, node->inputs[0]);
    in_gradients[0] = LIKE(each, node->inputs[0]);
}

static remat_status check_classes(remat_context *ctx, const struct remat_node_info *node,
                                  int64_t columns)
{
    int64_t classes = remat_node_int(node, "classes", columns);
    if (classes < 1 || classes > columns)
        return INVALID(ctx, "attribute \"classes\" is %lld, expected 1 to %lld, the columns",
                       (long long)classes, (long long)columns);
    return remat_check_columns(ctx, columns);
}

OP_SHAPE(cross_entropy)
{
    const struct remat_shape *logits = remat_input_shape(graph, node, 0);
    return check_classes(ctx, node, logits->dims[logits->rank - 1]);
}

OP_EXPAND(cross_entropy)
{
    remat_value losses = row_losses(b, node, F32(inputs[0]), inputs[1], &outputs[1]);
    remat_value mean = OP2(mul, OP1(row_sum, losses), share_of(b, node, inputs, inputs[1]));
    outputs[0] = remat_build_reshape(b, mean, NULL, 0);
}

OP_DERIVE(cross_entropy)
{
    remat_value x = F32(node->inputs[0]);
    remat_value share = share_of(b, node, node->inputs, node->inputs[1]);
    share = remat_build_product(b, gradient, remat_build_reshape(b, share, NULL, 0));
    remat_value dx = logits_gradient(b, node, x, node->inputs[1], node->outputs[1], share);
    in_gradients[0] = LIKE(dx, node->inputs[0]);
}

/* --- linear_cross_entropy: each chunk's gradients follow its logits at once --- */

OP_SHAPE(linear_cross_entropy)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    struct remat_node_info linear = *node;
    linear.input_count = 2;
    REMAT_CHECK(remat_shape_linear(ctx, graph, &linear, outputs));
    struct remat_shape leading = outputs[0].shape;
    int64_t columns = leading.dims[--leading.rank];
    leading.dims[leading.rank] = 0;
    struct remat_shape bias = {1, {columns}};
    REMAT_CHECK(check_classes(ctx, node, columns));
    REMAT_CHECK(remat_check_shape(ctx, graph, node, 2, &leading));
    if (!remat_is_none(remat_node_operand(node, "bias")))
        REMAT_CHECK(remat_check_shape(ctx, graph, node, 3, &bias));
    int64_t rows = remat_shape_elements(&leading), chunk = remat_node_int(node, "rows", rows);
    if (chunk < 1 || (rows - 1) / chunk >= REMAT_LOSS_CHUNKS_MAX)
        return INVALID(
            ctx, "%lld rows in chunks of %lld: there are at most %d chunks, of %lld rows or more",
            (long long)rows, (long long)chunk, REMAT_LOSS_CHUNKS_MAX,
            (long long)((rows - 1) / REMAT_LOSS_CHUNKS_MAX + 1));
    outputs[0] = remat_typed(REMAT_F32, (struct remat_shape){0, {0}});
    outputs[1] = remat_typed(x->dtype, x->shape);
    outputs[2] = remat_typed(x->dtype, *remat_input_shape(graph, node, 1));
    outputs[3] = remat_typed(x->dtype, bias);
    return REMAT_OK;
}

/* Three products. */
OP_FLOPS(linear_cross_entropy)
{
    uint64_t rows = (uint64_t)remat_shape_rows(remat_input_shape(graph, node, 0));
    uint64_t weights = (uint64_t)remat_shape_elements(remat_input_shape(graph, node, 1));
    return remat_mul_saturated(6, remat_mul_saturated(rows, weights));
}

struct head {
    const struct remat_node_info *node;
    bool transposed;
    remat_value x, w, targets, bias, share; /* rows of all chunks */
    remat_value losses[REMAT_LOSS_CHUNKS_MAX], dx[REMAT_LOSS_CHUNKS_MAX];
    remat_value dw, dbias; /* so far */
    uint32_t count;        /* of chunks so far */
};

/* The gradient of w, to which a chunk adds in place. */
static void add_product(struct remat_builder *b, struct head *h, remat_value x, remat_value g)
{
    const remat_value inputs[] = {h->dw, h->transposed ? g : x, h->transposed ? x : g};
    const struct remat_attribute transposed = remat_attribute_int("transpose_a", 1);
    h->dw = h->count ? remat_build(b, REMAT_OP_matmul_accumulate, inputs, 3, &transposed, 1, NULL)
                     : remat_build(b, REMAT_OP_matmul, inputs + 1, 2, &transposed, 1, NULL);
}

static void run_chunk(struct remat_builder *b, struct head *h, int64_t begin, int64_t end)
{
    remat_value x = remat_build_slice(b, h->x, 0, begin, end), log_sum;
    remat_value targets = remat_build_slice(b, h->targets, 0, begin, end);
    remat_value logits = remat_build_matmul(b, x, h->w, false, h->transposed);
    if (!remat_is_none(h->bias.i))
        logits = OP2(add, logits, h->bias);
    remat_value wide = F32(logits);
    h->losses[h->count] = row_losses(b, h->node, wide, targets, &log_sum);
    remat_value g = logits_gradient(b, h->node, wide, targets, log_sum, h->share);
    g = LIKE(g, logits);
    add_product(b, h, x, g);
    remat_value sum = OP1(column_sum, F32(g));
    h->dbias = h->count ? OP2(add, h->dbias, sum) : sum;
    h->dx[h->count++] = remat_build_matmul(b, g, h->w, false, !h->transposed);
}

static remat_value concat_parts(struct remat_builder *b, const remat_value *parts, uint32_t count,
                                int64_t along)
{
    const struct remat_attribute axis = remat_attribute_int("axis", along);
    return count == 1 ? parts[0] : remat_build(b, REMAT_OP_concat, parts, count, &axis, 1, NULL);
}

OP_EXPAND(linear_cross_entropy)
{
    struct head h = {node, remat_node_int(node, "transpose_weight", 0), .w = inputs[1]};
    struct remat_shape shape = b->graph->values[inputs[0].i].shape;
    int64_t rows = remat_shape_rows(&shape), chunk = remat_node_int(node, "rows", rows);
    h.x = remat_build_rows(b, inputs[0]);
    h.targets = remat_build_reshape(b, inputs[2], &rows, 1);
    h.bias = OPTIONAL(inputs, "bias");
    remat_value share = share_of(b, node, inputs, inputs[2]);
    h.share = remat_build_reshape(b, share, NULL, 0);
    for (int64_t begin = 0; begin < rows; begin += chunk)
        run_chunk(b, &h, begin, rows - begin < chunk ? rows : begin + chunk);
    remat_value losses = concat_parts(b, h.losses, h.count, 1),
                dx = concat_parts(b, h.dx, h.count, 0);
    remat_value mean = OP2(mul, OP1(row_sum, losses), share);
    outputs[0] = remat_build_reshape(b, mean, NULL, 0);
    outputs[1] = remat_build_reshape(b, dx, shape.dims, shape.rank);
    outputs[2] = h.dw;
    outputs[3] = LIKE(h.dbias, inputs[0]);
}

OP_DERIVE(linear_cross_entropy)
{
    in_gradients[1] = remat_build_scaled(b, node->outputs[2], gradient);
    in_gradients[0] = remat_build_scaled(b, node->outputs[1], gradient);
    if (!remat_is_none(remat_node_operand(node, "bias")))
        in_gradients[3] = remat_build_scaled(b, node->outputs[3], gradient);
}
