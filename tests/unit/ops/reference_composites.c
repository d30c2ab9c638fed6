/* SPDX-License-Identifier: Apache-2.0 */
/* Composite ops in float64: norms, losses, optimizers and the rest. */
#include "reference_call.h"

#include <math.h>

/* Element i of an optional operand. */
static double named(const struct call *c, const char *name, int64_t i, double absent)
{
    uint32_t k = remat_node_operand(c->node, name);
    return k == REMAT_NONE ? absent : c->in[k][i];
}

void evaluate_layer_norm(const struct call *c)
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
            c->out[0][r * n + i] =
                (x[i] - mean) * rstd * named(c, "gamma", i, 1) + named(c, "beta", i, 0);
        c->out[1][r] = mean;
        c->out[2][r] = rstd;
    }
}

void evaluate_gelu(const struct call *c)
{
    double root = sqrt(2 / acos(-1.0));
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double x = c->in[0][i];
        double t = attribute(c, "approximate") ? tanh(root * (x + 0.044715 * x * x * x))
                                               : erf(x / sqrt(2.0));
        c->out[0][i] = 0.5 * x * (1 + t);
    }
}

void evaluate_conv2d(const struct call *c)
{
    const int64_t *w = c->in_shape[1]->dims;
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        int64_t at[4];
        unflatten(c->out_shape[0], i, at);
        c->out[0][i] = named(c, "bias", at[1], 0);
        for (int64_t k = 0; k < w[1] * w[2] * w[3]; k++) {
            int64_t channel = k / (w[2] * w[3]), row = k / w[3] % w[2], column = k % w[3];
            int64_t from[] = {at[0], channel, at[2] * w[2] + row, at[3] * w[3] + column};
            c->out[0][i] +=
                c->in[0][flatten(c->in_shape[0], from)] * c->in[1][at[1] * w[1] * w[2] * w[3] + k];
        }
    }
}

void evaluate_softplus(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = fmax(c->in[0][i], 0) + log1p(exp(-fabs(c->in[0][i])));
}

void evaluate_expm1(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = expm1(c->in[0][i]);
}

void evaluate_relu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] > 0 ? c->in[0][i] : 0;
}

/* The logit of a row's target; of one that is no class, -infinity. */
static double picked(const double *logits, int64_t n, double target)
{
    return target >= 0 && target < (double)n ? logits[(int64_t)target] : -INFINITY;
}

void evaluate_mean(const struct call *c)
{
    int64_t n = count_of(c->in_shape[0]);
    for (int64_t i = 0; i < n; i++)
        c->out[0][0] += c->in[0][i] / (double)n;
}

/* What the sum of losses is divided by: the given count, else the number of counted rows. */
static double divisor(const struct call *c, int64_t counted)
{
    uint32_t k = remat_node_operand(c->node, "count");
    double count = k == REMAT_NONE ? (double)counted : c->in[k][0];
    return count < 1 ? 1 : count;
}

void evaluate_cross_entropy(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]), rows = count_of(c->out_shape[1]), counted = 0;
    int64_t classes = has_attribute(c, "classes") ? attribute(c, "classes") : n;
    bool ignores = has_attribute(c, "ignore_index");
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < classes; i++)
            sum += exp(c->in[0][r * n + i]);
        c->out[1][r] = log(sum);
        if (ignores && c->in[1][r] == (double)attribute(c, "ignore_index"))
            continue;
        c->out[0][0] += log(sum) - picked(c->in[0] + r * n, classes, c->in[1][r]);
        counted++;
    }
    c->out[0][0] /= divisor(c, counted);
}

/* Row by row, with the gradients of the mean over all rows that count. */
void evaluate_linear_cross_entropy(const struct call *c)
{
    int64_t k = last_of(c->in_shape[0]), n = last_of(c->out_shape[3]);
    int64_t rows = count_of(c->in_shape[0]) / k, across = attribute(c, "transpose_weight") ? 1 : n;
    int64_t down = attribute(c, "transpose_weight") ? k : 1, counted = 0;
    int64_t classes = has_attribute(c, "classes") ? attribute(c, "classes") : n;
    double logits[64];
    bool ignores = has_attribute(c, "ignore_index");
    for (int64_t r = 0; r < rows; r++)
        counted += !ignores || c->in[2][r] != (double)attribute(c, "ignore_index");
    double by = divisor(c, counted);
    uint32_t bias = remat_node_operand(c->node, "bias");
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        if (ignores && c->in[2][r] == (double)attribute(c, "ignore_index"))
            continue;
        for (int64_t i = 0; i < classes; i++) {
            logits[i] = bias == REMAT_NONE ? 0 : c->in[bias][i];
            for (int64_t p = 0; p < k; p++)
                logits[i] += c->in[0][r * k + p] * c->in[1][p * across + i * down];
            sum += exp(logits[i]);
        }
        c->out[0][0] += (log(sum) - picked(logits, classes, c->in[2][r])) / by;
        for (int64_t i = 0; i < classes; i++) {
            double g = (exp(logits[i]) / sum - (i == (int64_t)c->in[2][r])) / by;
            c->out[3][i] += g;
            for (int64_t p = 0; p < k; p++) {
                c->out[1][r * k + p] += g * c->in[1][p * across + i * down];
                c->out[2][p * across + i * down] += g * c->in[0][r * k + p];
            }
        }
    }
}

void evaluate_adamw_coefficients(const struct call *c)
{
    double lr = c->in[0][0], step = c->in[1][0];
    c->out[0][0] = 1 - lr * number(c, "weight_decay", NAN);
    c->out[0][1] = lr / (1 - pow(number(c, "beta1", NAN), step));
    c->out[0][2] = sqrt(1 - pow(number(c, "beta2", NAN), step));
    c->out[0][3] = 1;
}

void evaluate_adamw(const struct call *c)
{
    set_flag(c, 5, 3);
    double beta1 = number(c, "beta1", NAN), beta2 = number(c, "beta2", NAN);
    const double *s = c->in[4];
    double decay = attribute(c, "no_decay") ? s[3] : s[0];
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double g = c->in[3][i];
        double m = beta1 * c->in[1][i] + (1 - beta1) * g;
        double v = beta2 * c->in[2][i] + (1 - beta2) * g * g;
        c->out[0][i] =
            c->in[0][i] * decay - s[1] * m / (sqrt(v) / s[2] + number(c, "epsilon", NAN));
        c->out[1][i] = m;
        c->out[2][i] = v;
    }
}

void evaluate_rms_norm(const struct call *c)
{
    int64_t n = last_of(c->in_shape[0]);
    for (int64_t r = 0; r < count_of(c->out_shape[1]); r++) {
        const double *x = c->in[0] + r * n;
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x[i] * x[i] / (double)n;
        c->out[1][r] = 1 / sqrt(mean + number(c, "epsilon", 1e-5));
        for (int64_t i = 0; i < n; i++)
            c->out[0][r * n + i] = x[i] * c->out[1][r] * named(c, "gamma", i, 1);
    }
}

void evaluate_silu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] / (1 + exp(-c->in[0][i]));
}

void evaluate_swiglu(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] / (1 + exp(-c->in[0][i])) * c->in[1][i];
}

void evaluate_softmax(const struct call *c)
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
void evaluate_mask_causal(const struct call *c)
{
    int64_t keys = last_of(c->in_shape[0]);
    int64_t queries = c->in_shape[0]->dims[c->in_shape[0]->rank - 2];
    for (int64_t i = 0; i < count_of(c->in_shape[0]); i++) {
        double last = c->in[1][i / keys % queries] + (double)(keys - queries);
        c->out[0][i] = (double)(i % keys) > last ? -3.4028234663852886e38
                                                 : c->in[0][i] * number(c, "scale", 1);
    }
}

void evaluate_scale(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i] * number(c, "scale", 1);
}

/* Pair i of a head is the complex number x[i] + i x[i + D / 2], turned by the table's angle. */
void evaluate_rope(const struct call *c)
{
    const int64_t *d = c->in_shape[0]->dims;
    int64_t pairs = d[3] / 2;
    for (int64_t at = 0; at < d[0] * d[1] * d[2]; at++)
        for (int64_t i = 0; i < pairs; i++) {
            int64_t position =
                (int64_t)named(c, "positions", at / d[2], (double)(at / d[2] % d[1]));
            const double *x = c->in[0] + at * d[3], *w = c->in[1] + position * 4 * pairs;
            bool inverse = attribute(c, "inverse");
            for (int64_t to = 0; to < 2; to++)
                for (int64_t from = 0; from < 2; from++)
                    c->out[0][at * d[3] + to * pairs + i] +=
                        x[from * pairs + i] *
                        w[(inverse ? 2 * from + to : 2 * to + from) * pairs + i];
        }
}

void evaluate_rope_table(const struct call *c)
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

void evaluate_random(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = random_number(c, i);
}

void evaluate_dropout(const struct call *c)
{
    double p = number(c, "p", NAN);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = random_number(c, i) < p ? 0 : c->in[0][i] / (1 - p);
}

/* Rounding is left out, so that differences see through it. */
void evaluate_cast(const struct call *c)
{
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++)
        c->out[0][i] = c->in[0][i];
}

void evaluate_sgd(const struct call *c)
{
    set_flag(c, 3, 1);
    for (int64_t i = 0; i < count_of(c->out_shape[0]); i++) {
        double p = c->in[0][i];
        c->out[0][i] = p - c->in[2][0] * (c->in[1][i] + number(c, "weight_decay", 0) * p);
    }
}
