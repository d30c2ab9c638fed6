/* A float64 reference of every op, written from the definitions. */
#include "reference.h"

#include <math.h>

#define INPUTS_MAX 16

struct call {
    const struct remat_graph *graph;
    const struct remat_node_info *node;
    const struct remat_shape *in_shape[INPUTS_MAX], *out_shape[4];
    const double *in[INPUTS_MAX];
    double *out[4];
};

typedef void evaluate_function(const struct call *c);

/* --- indices --- */

static int64_t count_of(const struct remat_shape *shape)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        n *= shape->dims[d];
    return n;
}

static int64_t last_of(const struct remat_shape *shape)
{
    return shape->dims[shape->rank - 1];
}

static void unflatten(const struct remat_shape *shape, int64_t flat, int64_t *index)
{
    for (uint32_t d = shape->rank; d-- > 0;) {
        index[d] = flat % shape->dims[d];
        flat /= shape->dims[d];
    }
}

static int64_t flatten(const struct remat_shape *shape, const int64_t *index)
{
    int64_t flat = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        flat = flat * shape->dims[d] + index[d];
    return flat;
}

/* The element of `shape` that element `flat` of the broadcast shape `to` reads. */
static int64_t broadcast_index(const struct remat_shape *shape, const struct remat_shape *to,
                               int64_t flat)
{
    int64_t index[REMAT_RANK_MAX], own[REMAT_RANK_MAX];
    unflatten(to, flat, index);
    for (uint32_t d = 0; d < shape->rank; d++)
        own[d] = shape->dims[d] == 1 ? 0 : index[to->rank - shape->rank + d];
    return flatten(shape, own);
}

static int64_t attribute(const struct call *c, const char *key)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return c->node->attributes[a].i;
    return 0;
}

static double number(const struct call *c, const char *key, double otherwise)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return c->node->attributes[a].f;
    return otherwise;
}

static bool has_attribute(const struct call *c, const char *key)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return true;
    return false;
}

/* Any function of site and index serves. */
static double random_number(const struct call *c, int64_t index)
{
    const int64_t key[] = {attribute(c, "site"), index};
    return (double)(remat_hash(key, sizeof key, 5) >> 11) / 9007199254740992.0;
}

/* --- pointwise --- */

static double apply(uint16_t op, double a, double b, double c)
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

static void evaluate_pointwise(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double x[3] = {0, 0, 0};
        for (uint32_t k = 0; k < c->node->input_count; k++)
            x[k] = c->in[k][broadcast_index(c->in_shape[k], c->out_shape[0], i)];
        c->out[0][i] = apply(c->node->op, x[0], x[1], x[2]);
    }
}

static void evaluate_constant(const struct call *c)
{
    c->out[0][0] = number(c, "value", NAN);
}

static void evaluate_column(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = (double)(i % last_of(c->out_shape[0]));
}

static void evaluate_assign(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[1][i];
}

/* --- reductions --- */

static void evaluate_row_sum(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        c->out[0][i / n] += c->in[0][i];
}

static void evaluate_row_max(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        if (i % n == 0 || c->in[0][i] > c->out[0][i / n])
            c->out[0][i / n] = c->in[0][i];
}

static void evaluate_column_sum(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++)
        c->out[0][i % n] += c->in[0][i];
}

/* --- views --- */

static void evaluate_reshape(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
}

static void evaluate_slice(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        int64_t index[REMAT_RANK_MAX];
        unflatten(c->out_shape[0], i, index);
        index[attribute(c, "axis")] += attribute(c, "begin");
        c->out[0][i] = c->in[0][flatten(c->in_shape[0], index)];
    }
}

static void evaluate_pad(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++) {
        int64_t index[REMAT_RANK_MAX];
        unflatten(c->in_shape[0], i, index);
        index[attribute(c, "axis")] += attribute(c, "begin");
        c->out[0][flatten(c->out_shape[0], index)] = c->in[0][i];
    }
}

static void evaluate_transpose(const struct call *c)
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

static void evaluate_concat(const struct call *c)
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

static void evaluate_matmul(const struct call *c)
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

static void evaluate_matmul_accumulate(const struct call *c)
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

static void evaluate_linear(const struct call *c)
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

/* --- attention --- */

/* Lengths and where element (batch, position, head, 0) of a [B, T, H, D] operand lies. */
struct heads {
    int64_t batch, tq, tk, h, hkv, d;
    double scale, p;
    bool causal;
};

static struct heads heads_of(const struct call *c, uint32_t q)
{
    const int64_t *qd = c->in_shape[q]->dims, *kd = c->in_shape[q + 1]->dims;
    return (struct heads){.batch = qd[0],
                          .tq = qd[1],
                          .tk = kd[1],
                          .h = qd[2],
                          .hkv = kd[2],
                          .d = qd[3],
                          .scale = number(c, "scale", NAN),
                          .p = number(c, "p", 0),
                          .causal = attribute(c, "causal")};
}

static int64_t q_at(const struct heads *s, int64_t b, int64_t i, int64_t h)
{
    return ((b * s->tq + i) * s->h + h) * s->d;
}

static int64_t k_at(const struct heads *s, int64_t b, int64_t j, int64_t h)
{
    return ((b * s->tk + j) * s->hkv + h / (s->h / s->hkv)) * s->d;
}

/* The probabilities of one query's keys; returns the log of the sum of exponentials. */
static double probabilities(const struct heads *s, const double *q, const double *k, int64_t b,
                            int64_t i, int64_t h, double *p)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->tk; j++) {
        p[j] = 0;
        for (int64_t e = 0; e < s->d; e++)
            p[j] += q[q_at(s, b, i, h) + e] * k[k_at(s, b, j, h) + e] * s->scale;
        if (s->causal && j > i + s->tk - s->tq)
            p[j] = -INFINITY;
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < s->tk; j++) {
        p[j] = exp(p[j] - top);
        sum += p[j];
    }
    for (int64_t j = 0; j < s->tk; j++)
        p[j] /= sum;
    return top + log(sum);
}

#define KEYS_MAX 64

/* The factors of dropout for one query's probabilities. */
static void kept(const struct call *c, const struct heads *s, int64_t b, int64_t i, int64_t h,
                 double *factors)
{
    for (int64_t j = 0; j < s->tk; j++) {
        int64_t index = ((b * s->h + h) * s->tq + i) * s->tk + j;
        factors[j] = s->p > 0 && random_number(c, index) < s->p ? 0 : 1 / (1 - s->p);
    }
}

static void evaluate_attention(const struct call *c)
{
    struct heads s = heads_of(c, 0);
    double p[KEYS_MAX], keep[KEYS_MAX];
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.h; h++)
            for (int64_t i = 0; i < s.tq; i++) {
                c->out[1][(b * s.h + h) * s.tq + i] =
                    probabilities(&s, c->in[0], c->in[1], b, i, h, p);
                kept(c, &s, b, i, h, keep);
                for (int64_t j = 0; j < s.tk; j++)
                    for (int64_t e = 0; e < s.d; e++)
                        c->out[0][q_at(&s, b, i, h) + e] +=
                            p[j] * keep[j] * c->in[2][k_at(&s, b, j, h) + e];
            }
}

/* What one query adds to dq, dk and dv: ds = p (dp - sum of p dp), dp = dout v. */
static void backward_query(const struct call *c, const struct heads *s, int64_t b, int64_t i,
                           int64_t h)
{
    double p[KEYS_MAX], dp[KEYS_MAX], keep[KEYS_MAX], dot = 0;
    const double *dout = c->in[0], *q = c->in[1], *k = c->in[2], *v = c->in[3];
    int64_t at = q_at(s, b, i, h);
    probabilities(s, q, k, b, i, h, p);
    kept(c, s, b, i, h, keep);
    for (int64_t j = 0; j < s->tk; j++) {
        dp[j] = 0;
        for (int64_t e = 0; e < s->d; e++) {
            dp[j] += dout[at + e] * v[k_at(s, b, j, h) + e] * keep[j];
            c->out[2][k_at(s, b, j, h) + e] += p[j] * keep[j] * dout[at + e];
        }
        dot += p[j] * dp[j];
    }
    for (int64_t j = 0; j < s->tk; j++)
        for (int64_t e = 0; e < s->d; e++) {
            double ds = p[j] * (dp[j] - dot) * s->scale;
            c->out[0][at + e] += ds * k[k_at(s, b, j, h) + e];
            c->out[1][k_at(s, b, j, h) + e] += ds * q[at + e];
        }
}

static void evaluate_attention_backward(const struct call *c)
{
    struct heads s = heads_of(c, 1);
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.h; h++)
            for (int64_t i = 0; i < s.tq; i++)
                backward_query(c, &s, b, i, h);
}

/* --- embedding --- */

static void evaluate_embedding(const struct call *c)
{
    int64_t n = last_of(c->out_shape[0]);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][(int64_t)c->in[1][i / n] * n + i % n];
}

static void evaluate_embedding_backward(const struct call *c)
{
    uint32_t g = c->node->op == REMAT_OP_embedding_accumulate ? 1 : 0;
    int64_t n = last_of(c->out_shape[0]);
    for (int64_t i = 0; g && i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
    for (int64_t i = 0; i < count_of(c->in_shape[g]); i++)
        c->out[0][(int64_t)c->in[g + 1][i / n] * n + i % n] += c->in[g][i];
}

/* --- microbatches --- */

static void evaluate_batch_slice(const struct call *c)
{
    int64_t n = count_of(c->out_shape[0]);
    for (int64_t i = 0; i < n; i++)
        c->out[0][i] = c->in[0][(int64_t)c->in[1][0] * n + i];
}

static void evaluate_advance(const struct call *c)
{
    c->out[0][0] = fmod(c->in[0][0] + 1, (double)attribute(c, "count"));
}

/* --- composites --- */

static void evaluate_layer_norm(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t r = 0; r < count_of(c->out_shape[1]); r++) {
        const double *x = c->in[0] + r * n;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        double rstd = 1 / sqrt(variance + number(c, "epsilon", 1e-5));
        for (int64_t i = 0; i < n; i++)
            c->out[0][r * n + i] = (x[i] - mean) * rstd * c->in[1][i] + c->in[2][i];
        c->out[1][r] = mean;
        c->out[2][r] = rstd;
    }
}

static void evaluate_gelu(const struct call *c)
{
    double root = sqrt(2 / acos(-1.0));
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double x = c->in[0][i];
        double t = attribute(c, "approximate") ? tanh(root * (x + 0.044715 * x * x * x))
                                               : erf(x / sqrt(2.0));
        c->out[0][i] = 0.5 * x * (1 + t);
    }
}

static void evaluate_relu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] > 0 ? c->in[0][i] : 0;
}

static void evaluate_cross_entropy(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]), rows = count_of(c->out_shape[1]), counted = 0;
    bool ignores = has_attribute(c, "ignore_index");
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp(c->in[0][r * n + i]);
        c->out[1][r] = log(sum);
        if (ignores && c->in[1][r] == (double)attribute(c, "ignore_index"))
            continue;
        c->out[0][0] += log(sum) - c->in[0][r * n + (int64_t)c->in[1][r]];
        counted++;
    }
    c->out[0][0] /= counted ? (double)counted : 1;
}

/* Row by row, with the gradients of the mean over all rows that count. */
static void evaluate_linear_cross_entropy(const struct call *c)
{
    int64_t k = last_of(c->in_shape[0]), n = last_of(c->out_shape[3]);
    int64_t rows = count_of(c->in_shape[0]) / k, across = attribute(c, "transpose_weight") ? 1 : n;
    int64_t down = attribute(c, "transpose_weight") ? k : 1, counted = 0;
    double logits[64];
    bool ignores = has_attribute(c, "ignore_index");
    for (int64_t r = 0; r < rows; r++)
        counted += !ignores || c->in[2][r] != (double)attribute(c, "ignore_index");
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        if (ignores && c->in[2][r] == (double)attribute(c, "ignore_index"))
            continue;
        for (int64_t i = 0; i < n; i++) {
            logits[i] = c->node->input_count > 3 ? c->in[3][i] : 0;
            for (int64_t p = 0; p < k; p++)
                logits[i] += c->in[0][r * k + p] * c->in[1][p * across + i * down];
            sum += exp(logits[i]);
        }
        c->out[0][0] += (log(sum) - logits[(int64_t)c->in[2][r]]) / (double)counted;
        for (int64_t i = 0; i < n; i++) {
            double g = (exp(logits[i]) / sum - (i == (int64_t)c->in[2][r])) / (double)counted;
            c->out[3][i] += g;
            for (int64_t p = 0; p < k; p++) {
                c->out[1][r * k + p] += g * c->in[1][p * across + i * down];
                c->out[2][p * across + i * down] += g * c->in[0][r * k + p];
            }
        }
    }
}

static void evaluate_adamw_coefficients(const struct call *c)
{
    double lr = c->in[0][0], step = c->in[1][0];
    c->out[0][0] = 1 - lr * number(c, "weight_decay", NAN);
    c->out[0][1] = lr / (1 - pow(number(c, "beta1", NAN), step));
    c->out[0][2] = sqrt(1 - pow(number(c, "beta2", NAN), step));
}

static void evaluate_adamw(const struct call *c)
{
    double beta1 = number(c, "beta1", NAN), beta2 = number(c, "beta2", NAN);
    const double *s = c->in[4];
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double g = c->in[3][i];
        double m = beta1 * c->in[1][i] + (1 - beta1) * g;
        double v = beta2 * c->in[2][i] + (1 - beta2) * g * g;
        c->out[0][i] = c->in[0][i] * s[0] - s[1] * m / (sqrt(v) / s[2] + number(c, "epsilon", NAN));
        c->out[1][i] = m;
        c->out[2][i] = v;
    }
}

static void evaluate_rms_norm(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t r = 0; r < count_of(c->out_shape[1]); r++) {
        const double *x = c->in[0] + r * n;
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x[i] * x[i] / (double)n;
        c->out[1][r] = 1 / sqrt(mean + number(c, "epsilon", 1e-5));
        for (int64_t i = 0; i < n; i++)
            c->out[0][r * n + i] = x[i] * c->out[1][r] * c->in[1][i];
    }
}

static void evaluate_silu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] / (1 + exp(-c->in[0][i]));
}

static void evaluate_swiglu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] / (1 + exp(-c->in[0][i])) * c->in[1][i];
}

static void evaluate_softmax(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t r = 0; r < count_of(c->in_shape[0]) / n; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp(c->in[0][r * n + i]);
        for (int64_t i = 0; i < n; i++)
            c->out[0][r * n + i] = exp(c->in[0][r * n + i]) / sum;
    }
}

/* The reference of the masked value is what a later softmax makes 0. */
static void evaluate_mask_causal(const struct call *c)
{
    int64_t keys = last_of(c->in_shape[0]);
    int64_t queries = c->in_shape[0]->dims[c->in_shape[0]->rank - 2];
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++) {
        double last = c->in[1][i / keys % queries] + (double)(keys - queries);
        c->out[0][i] = (double)(i % keys) > last ? -3.4028234663852886e38
                                                 : c->in[0][i] * number(c, "scale", 1);
    }
}

static void evaluate_scale(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] * number(c, "scale", 1);
}

/* Pair i of a head is the complex number x[i] + i x[i + D / 2], turned by the table's angle. */
static void evaluate_rope(const struct call *c)
{
    const int64_t *d = c->in_shape[0]->dims;
    int64_t pairs = d[3] / 2;
    for (int64_t at = 0; at < d[0] * d[1] * d[2]; at++)
        for (int64_t i = 0; i < pairs; i++) {
            const double *x = c->in[0] + at * d[3], *w = c->in[1] + at / d[2] % d[1] * 4 * pairs;
            bool inverse = attribute(c, "inverse");
            for (int64_t to = 0; to < 2; to++)
                for (int64_t from = 0; from < 2; from++)
                    c->out[0][at * d[3] + to * pairs + i] +=
                        x[from * pairs + i] *
                        w[(inverse ? 2 * from + to : 2 * to + from) * pairs + i];
        }
}

static void evaluate_rope_table(const struct call *c)
{
    int64_t pairs = attribute(c, "pairs");
    for (int64_t t = 0; t < attribute(c, "length"); t++)
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)t * pow(number(c, "theta", NAN), -(double)i / (double)pairs);
            double *w = c->out[0] + t * 4 * pairs + i;
            w[0] = w[3 * pairs] = cos(angle);
            w[pairs] = -sin(angle);
            w[2 * pairs] = sin(angle);
        }
}

static void evaluate_random(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = random_number(c, i);
}

static void evaluate_dropout(const struct call *c)
{
    double p = number(c, "p", NAN);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = random_number(c, i) < p ? 0 : c->in[0][i] / (1 - p);
}

/* Rounding is left out, so that differences see through it. */
static void evaluate_cast(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
}

static void evaluate_sgd(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double p = c->in[0][i];
        c->out[0][i] = p - c->in[2][0] * (c->in[1][i] + number(c, "weight_decay", 0) * p);
    }
}

/* --- dispatch --- */

static evaluate_function *const functions[REMAT_OP_COUNT] = {
    [REMAT_OP_constant] = evaluate_constant,
    [REMAT_OP_column] = evaluate_column,
    [REMAT_OP_assign] = evaluate_assign,
    [REMAT_OP_row_sum] = evaluate_row_sum,
    [REMAT_OP_row_max] = evaluate_row_max,
    [REMAT_OP_column_sum] = evaluate_column_sum,
    [REMAT_OP_reshape] = evaluate_reshape,
    [REMAT_OP_slice] = evaluate_slice,
    [REMAT_OP_transpose] = evaluate_transpose,
    [REMAT_OP_pad] = evaluate_pad,
    [REMAT_OP_concat] = evaluate_concat,
    [REMAT_OP_matmul] = evaluate_matmul,
    [REMAT_OP_matmul_accumulate] = evaluate_matmul_accumulate,
    [REMAT_OP_linear] = evaluate_linear,
    [REMAT_OP_attention] = evaluate_attention,
    [REMAT_OP_attention_backward] = evaluate_attention_backward,
    [REMAT_OP_embedding] = evaluate_embedding,
    [REMAT_OP_embedding_backward] = evaluate_embedding_backward,
    [REMAT_OP_embedding_accumulate] = evaluate_embedding_backward,
    [REMAT_OP_batch_slice] = evaluate_batch_slice,
    [REMAT_OP_advance] = evaluate_advance,
    [REMAT_OP_layer_norm] = evaluate_layer_norm,
    [REMAT_OP_gelu] = evaluate_gelu,
    [REMAT_OP_relu] = evaluate_relu,
    [REMAT_OP_rms_norm] = evaluate_rms_norm,
    [REMAT_OP_silu] = evaluate_silu,
    [REMAT_OP_swiglu] = evaluate_swiglu,
    [REMAT_OP_softmax] = evaluate_softmax,
    [REMAT_OP_mask_causal] = evaluate_mask_causal,
    [REMAT_OP_scale] = evaluate_scale,
    [REMAT_OP_rope] = evaluate_rope,
    [REMAT_OP_rope_table] = evaluate_rope_table,
    [REMAT_OP_random] = evaluate_random,
    [REMAT_OP_dropout] = evaluate_dropout,
    [REMAT_OP_cast] = evaluate_cast,
    [REMAT_OP_cross_entropy] = evaluate_cross_entropy,
    [REMAT_OP_linear_cross_entropy] = evaluate_linear_cross_entropy,
    [REMAT_OP_adamw_coefficients] = evaluate_adamw_coefficients,
    [REMAT_OP_adamw] = evaluate_adamw,
    [REMAT_OP_sgd] = evaluate_sgd,
};

static bool evaluate_node(struct remat_arena *arena, const struct remat_graph *graph, uint32_t n,
                          double **values)
{
    struct call c = {.graph = graph, .node = &graph->nodes[n]};
    for (uint32_t k = 0; k < c.node->input_count; k++) {
        c.in[k] = values[c.node->inputs[k].i];
        c.in_shape[k] = &graph->values[c.node->inputs[k].i].shape;
    }
    for (uint32_t k = 0; k < c.node->output_count; k++) {
        c.out_shape[k] = &graph->values[c.node->outputs[k].i].shape;
        c.out[k] = remat_arena_array(arena, (size_t)count_of(c.out_shape[k]), sizeof(double));
        if (!c.out[k])
            return false;
        values[c.node->outputs[k].i] = c.out[k];
    }
    evaluate_function *evaluate = functions[c.node->op];
    if (!evaluate && c.node->input_count > 0 && c.node->output_count == 1 &&
        !isnan(apply(c.node->op, 1, 1, 1)))
        evaluate = evaluate_pointwise;
    if (evaluate)
        evaluate(&c);
    return evaluate != NULL;
}

bool reference_evaluate(struct remat_arena *arena, const struct remat_graph *graph, double **values)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (!evaluate_node(arena, graph, n, values))
            return false;
    return true;
}
