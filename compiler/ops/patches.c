/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution whose stride is its kernel reads each element of x once: it is a product of the
 * kernels and the patches, a row each. x is [B, C, Y, p, X, q] as a view, of which the rows
 * [B, Y, X | C, p, q] are a copy. */
#include "family.h"

struct patches {
    int64_t batch, channels, rows, columns, height, width; /* B, C, Y, X, p, q */
    int64_t outputs;
};

static struct patches patches_of(const struct remat_shape *x, const struct remat_shape *w)
{
    return (struct patches){
        x->dims[0], x->dims[1], x->dims[2] / w->dims[2], x->dims[3] / w->dims[3], w->dims[2],
        w->dims[3], w->dims[0]};
}

OP_SHAPE(conv2d)
{
    const struct remat_value_info *x = remat_input(graph, node, 0);
    const struct remat_shape *w = remat_input_shape(graph, node, 1);
    struct patches p = patches_of(&x->shape, w);
    if (x->shape.dims[2] % p.height || x->shape.dims[3] % p.width)
        return INVALID(ctx, "patches of %lld x %lld do not divide %lld x %lld", (long long)p.height,
                       (long long)p.width, (long long)x->shape.dims[2],
                       (long long)x->shape.dims[3]);
    outputs[0] =
        remat_typed(x->dtype, (struct remat_shape){4, {p.batch, p.outputs, p.rows, p.columns}});
    return REMAT_OK;
}

OP_FLOPS(conv2d)
{
    const struct remat_shape *w = remat_input_shape(graph, node, 1);
    int64_t results = remat_shape_elements(&graph->values[node->outputs[0].i].shape);
    int64_t terms = remat_shape_elements(w) / w->dims[0];
    bool biased = !remat_is_none(remat_node_operand(node, "bias"));
    return remat_mul_saturated((uint64_t)results, 2 * (uint64_t)terms + biased);
}

static remat_value transpose(struct remat_builder *b, remat_value x, const int64_t *axes,
                             uint32_t rank)
{
    const struct remat_attribute permutation = remat_attribute_ints("permutation", axes, rank);
    return remat_build(b, REMAT_OP_transpose, &x, 1, &permutation, 1, NULL);
}

/* [B Y X, C p q] */
static remat_value rows_of(struct remat_builder *b, remat_value x, const struct patches *p)
{
    int64_t split[] = {p->batch, p->channels, p->rows, p->height, p->columns, p->width};
    int64_t rows[] = {p->batch * p->rows * p->columns, p->channels * p->height * p->width};
    x = transpose(b, remat_build_reshape(b, x, split, 6), (int64_t[]){0, 2, 4, 1, 3, 5}, 6);
    return remat_build_reshape(b, x, rows, 2);
}

/* The same back. */
static remat_value image_of(struct remat_builder *b, remat_value rows, const struct patches *p)
{
    int64_t split[] = {p->batch, p->rows, p->columns, p->channels, p->height, p->width};
    int64_t image[] = {p->batch, p->channels, p->rows * p->height, p->columns * p->width};
    rows = transpose(b, remat_build_reshape(b, rows, split, 6), (int64_t[]){0, 3, 1, 4, 2, 5}, 6);
    return remat_build_reshape(b, rows, image, 4);
}

/* [O, C p q] */
static remat_value kernels_of(struct remat_builder *b, remat_value w, const struct patches *p)
{
    int64_t dims[] = {p->outputs, p->channels * p->height * p->width};
    return remat_build_reshape(b, w, dims, 2);
}

/* The kernels come first: the result [B, O, Y X] is dense. */
OP_EXPAND(conv2d)
{
    const struct remat_value_info *values = b->graph->values;
    struct patches p = patches_of(&values[inputs[0].i].shape, &values[inputs[1].i].shape);
    int64_t terms = p.channels * p.height * p.width;
    remat_value rows = rows_of(b, inputs[0], &p), kernels = kernels_of(b, inputs[1], &p);
    rows = remat_build_reshape(b, rows, (int64_t[]){p.batch, p.rows * p.columns, terms}, 3);
    kernels = remat_build_reshape(b, kernels, (int64_t[]){1, p.outputs, terms}, 3);
    remat_value y = remat_build_matmul(b, kernels, rows, false, true);
    remat_value bias = OPTIONAL(inputs, "bias");
    if (!remat_is_none(bias.i))
        y = OP2(add, y, remat_build_reshape(b, bias, (int64_t[]){p.outputs, 1}, 2));
    int64_t dims[] = {p.batch, p.outputs, p.rows, p.columns};
    outputs[0] = remat_build_reshape(b, y, dims, 4);
}

OP_DERIVE(conv2d)
{
    struct remat_shape w = *remat_input_shape(b->graph, node, 1);
    struct patches p = patches_of(remat_input_shape(b->graph, node, 0), &w);
    int64_t dims[] = {p.batch * p.rows * p.columns, p.outputs};
    remat_value g = transpose(b, gradient, (int64_t[]){0, 2, 3, 1}, 4);
    g = remat_build_reshape(b, g, dims, 2);
    remat_value rows = rows_of(b, node->inputs[0], &p);
    remat_value dw = remat_build_matmul(b, g, rows, true, false);
    in_gradients[1] = remat_build_reshape(b, dw, w.dims, w.rank);
    remat_value bias = OPTIONAL(node->inputs, "bias");
    if (!remat_is_none(bias.i))
        in_gradients[2] = LIKE(OP1(column_sum, F32(g)), bias);
    remat_value kernels = kernels_of(b, node->inputs[1], &p);
    in_gradients[0] = image_of(b, remat_build_matmul(b, g, kernels, false, false), &p);
}
