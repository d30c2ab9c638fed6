/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient in float64. */
#include "reference_call.h"

#include <math.h>

/* Lengths and where element (batch, position, head, 0) of a [B, T, H, D] operand lies. */
struct heads {
    int64_t batch, tq, tk, h, hkv, d;
    double scale, p;
    bool causal;
    const double *query_segments, *key_segments; /* NULL: all 0 */
};

static const double *segments_of(const struct call *c, const char *name)
{
    uint32_t k = remat_node_operand(c->node, name);
    return k == REMAT_NONE ? NULL : c->in[k];
}

static bool sees(const struct heads *s, int64_t b, int64_t i, int64_t j)
{
    double query = s->query_segments ? s->query_segments[b * s->tq + i] : 0;
    double key = s->key_segments ? s->key_segments[b * s->tk + j] : 0;
    return query == key && key >= 0 && !(s->causal && j > i + s->tk - s->tq);
}

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
                          .causal = attribute(c, "causal"),
                          .query_segments = segments_of(c, "query_segments"),
                          .key_segments = segments_of(c, "key_segments")};
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
        if (!sees(s, b, i, j))
            p[j] = -INFINITY;
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < s->tk; j++) {
        p[j] = sees(s, b, i, j) ? exp(p[j] - top) : 0;
        sum += p[j];
    }
    for (int64_t j = 0; j < s->tk; j++)
        p[j] /= sum > 0 ? sum : 1;
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

void evaluate_attention(const struct call *c)
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

void evaluate_attention_backward(const struct call *c)
{
    struct heads s = heads_of(c, 1);
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.h; h++)
            for (int64_t i = 0; i < s.tq; i++)
                backward_query(c, &s, b, i, h);
}
