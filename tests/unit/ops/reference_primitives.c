/* SPDX-License-Identifier: Apache-2.0 */
/* Primitive ops, products, tables and microbatches in float64. */
#include "reference_call.h"

#include <math.h>

/* --- pointwise --- */

double apply(uint16_t op, double a, double b, double c)
{
    switch (op) {
    case REMAT_OP_add:
        return a + b;
    case REMAT_OP_sub:
        return a - b;
    case REMAT_OP_mul:
        return a * b;
    case REMAT_OP_div:
        return a / b;
    case REMAT_OP_maximum:
        return a > b ? a : b;
    case REMAT_OP_minimum:
        return a < b ? a : b;
    case REMAT_OP_equal:
        return a == b;
    case REMAT_OP_less:
        return a < b;
    case REMAT_OP_select:
        return a != 0 ? b : c;
    case REMAT_OP_neg:
        return -a;
    case REMAT_OP_exp:
        return exp(a);
    case REMAT_OP_log:
        return log(a);
    case REMAT_OP_sqrt:
        return sqrt(a);
    case REMAT_OP_rsqrt:
        return 1 / sqrt(a);
    case REMAT_OP_tanh:
        return tanh(a);
    case REMAT_OP_erf:
        return erf(a);
    case REMAT_OP_sigmoid:
        return 1 / (1 + exp(-a));
    default:
        return NAN;
    }
}

void evaluate_pointwise(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double x[3] = {0, 0, 0};
        for (uint32_t k = 0; k < c->node->input_count; k++)
            x[k] = c->in[k][broadcast_index(c->in_shape[k], c->out_shape[0], i)];
        c->out[0][i] = apply(c->node->op, x[0], x[1], x[2]);
    }
}

void evaluate_constant(const struct call *c)
{
    c->out[0][0] = number(c, "value", NAN);
}

void evaluate_column(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = (double)(i % last_of(c->out_shape[0]));
}

void evaluate_assign(const struct call *c)
{
    set_flag(c, 2, 3);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[1][i];
}

/* --- reductions --- */

void evaluate_row_sum(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        c->out[0][i / n] += c->in[0][i];
}

void evaluate_row_max(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        if (i % n == 0 || c->in[0][i] > c->out[0][i / n])
            c->out[0][i / n] = c->in[0][i];
}

void evaluate_column_sum(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        c->out[0][i % n] += c->in[0][i];
}

/* --- views --- */

void evaluate_reshape(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
}

void evaluate_slice(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        int64_t index[REMAT_RANK_MAX];
        unflatten(c->out_shape[0], i, index);
        index[attribute(c, "axis")] += attribute(c, "begin");
        c->out[0][i] = c->in[0][flatten(c->in_shape[0], index)];
    }
}

void evaluate_pad(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++) {
        int64_t index[REMAT_RANK_MAX];
        unflatten(c->in_shape[0], i, index);
        index[attribute(c, "axis")] += attribute(c, "begin");
        c->out[0][flatten(c->out_shape[0], index)] = c->in[0][i];
    }
}

void evaluate_transpose(const struct call *c)
{
    const int64_t *permutation = c->node->attributes[0].ints;
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        int64_t index[REMAT_RANK_MAX], own[REMAT_RANK_MAX];
        unflatten(c->out_shape[0], i, index);
        for (uint32_t d = 0; d < c->out_shape[0]->rank; d++)
            own[permutation[d]] = index[d];
        c->out[0][i] = c->in[0][flatten(c->in_shape[0], own)];
    }
}

void evaluate_concat(const struct call *c)
{
    int64_t axis = attribute(c, "axis"), begin = 0;
    for (uint32_t k = 0; k < c->node->input_count; k++) {
        for (int64_t i = 0; i < count_of(c->in_shape[k]); i++) {
            int64_t index[REMAT_RANK_MAX];
            unflatten(c->in_shape[k], i, index);
            index[axis] += begin;
            c->out[0][flatten(c->out_shape[0], index)] = c->in[k][i];
        }
        begin += c->in_shape[k]->dims[axis];
    }
}

/* --- products --- */

/* Which matrix of operand k is multiplied for matrix `batch` of the result. */
static int64_t matrix_of(const struct call *c, uint32_t k, int64_t batch)
{
    int64_t index[REMAT_RANK_MAX], own = 0;
    struct remat_shape leading = *c->out_shape[0];
    leading.rank -= 2;
    unflatten(&leading, batch, index);
    for (uint32_t d = 0; d < leading.rank; d++) {
        int64_t length = c->in_shape[k]->dims[d];
        own = own * length + (length == 1 ? 0 : index[d]);
    }
    return own;
}

void evaluate_matmul(const struct call *c)
{
    bool ta = attribute(c, "transpose_a"), tb = attribute(c, "transpose_b");
    uint32_t rank = c->out_shape[0]->rank;
    int64_t m = c->out_shape[0]->dims[rank - 2], n = last_of(c->out_shape[0]);
    int64_t inner = c->in_shape[0]->dims[rank - (ta ? 2 : 1)];
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        const double *a = c->in[0] + matrix_of(c, 0, batch) * m * inner;
        const double *b = c->in[1] + matrix_of(c, 1, batch) * n * inner;
        for (int64_t k = 0; k < inner; k++)
            c->out[0][i] += (ta ? a[k * m + row] : a[row * inner + k]) *
                            (tb ? b[column * inner + k] : b[k * n + column]);
    }
}

void evaluate_matmul_accumulate(const struct call *c)
{
    struct call product = *c;
    for (uint32_t k = 0; k < 2; k++) {
        product.in[k] = c->in[k + 1];
        product.in_shape[k] = c->in_shape[k + 1];
    }
    evaluate_matmul(&product);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] += c->in[0][i];
}

void evaluate_linear(const struct call *c)
{
    bool transposed = attribute(c, "transpose_weight");
    int64_t inner = last_of(c->in_shape[0]), n = last_of(c->out_shape[0]);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum += c->in[0][i / n * inner + k] *
                   c->in[1][transposed ? i % n * inner + k : k * n + i % n];
        c->out[0][i] = sum + (c->node->input_count > 2 ? c->in[2][i % n] : 0);
    }
}

/* --- embedding --- */

void evaluate_embedding(const struct call *c)
{
    int64_t n = last_of(c->out_shape[0]);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][(int64_t)c->in[1][i / n] * n + i % n];
}

void evaluate_embedding_backward(const struct call *c)
{
    uint32_t g = c->node->op == REMAT_OP_embedding_accumulate ? 1 : 0;
    int64_t n = last_of(c->out_shape[0]);
    for (int64_t i = 0; g && i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
    for (int64_t i = 0; i < count_of(c->in_shape[g]); i++)
        c->out[0][(int64_t)c->in[g + 1][i / n] * n + i % n] += c->in[g][i];
}

/* --- microbatches --- */

void evaluate_batch_slice(const struct call *c)
{
    int64_t n = count_of(c->out_shape[0]);
    for (int64_t i = 0; i < n; i++)
        c->out[0][i] = c->in[0][(int64_t)c->in[1][0] * n + i];
}

void evaluate_advance(const struct call *c)
{
    c->out[0][0] = fmod(c->in[0][0] + 1, (double)attribute(c, "count"));
}
