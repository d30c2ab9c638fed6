/* SPDX-License-Identifier: Apache-2.0 */
/* Angles and their sines in double from additions, multiplications and divisions alone, then
 * rounded to f32 once: the series are good to about 1e-15, so the f32 results are those of exact
 * arithmetic but for rare ties. */
#include "cpu_rope.h"

#include <assert.h>

#define LN2_HIGH 6.93147180369123816490e-01 /* 33 bits, so that n times it is exact */
#define LN2_LOW  1.90821492927058770002e-10
#define LN2      6.93147180559945309417e-01
#define TWO_PI   6.28318530717958647693
/* pi / 2 in parts of 33 bits, so that n times one is exact for n < 2^20. */
#define HALF_PI_1 1.57079632673412561417e+00
#define HALF_PI_2 6.07710050630396597660e-11
#define HALF_PI_3 2.02226624879595063154e-21

static double scaled(double x, int64_t power) /* x 2^power; both normal */
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += (uint64_t)power << 52;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double nearest(double x)
{
    return (double)(int64_t)(x < 0 ? x - 0.5 : x + 0.5);
}

/* For x in [-700, 700]. */
static double exponential(double x)
{
    double n = nearest(x / LN2), r = x - n * LN2_HIGH - n * LN2_LOW, sum = 1;
    for (int k = 16; k > 0; k--)
        sum = 1 + sum * r / k;
    return scaled(sum, (int64_t)n);
}

/* For normal x >= 1: with x = 2^e m and s = (m - 1) / (m + 1), e ln 2 + 2 (s + s^3 / 3 + ...). */
static double logarithm(double x)
{
    int64_t e = 0;
    for (; x > 1.5; x = x / 2)
        e++;
    double s = (x - 1) / (x + 1), square = s * s, sum = 0;
    for (int k = 31; k > 0; k -= 2)
        sum = sum * square + 1.0 / k;
    return (double)e * LN2_HIGH + ((double)e * LN2_LOW + 2 * s * sum);
}

/* For x in [0, 2^20 pi / 2). */
static void sine_and_cosine(double x, double *out_sine, double *out_cosine)
{
    double n = nearest(x / (TWO_PI / 4));
    double r = ((x - n * HALF_PI_1) - n * HALF_PI_2) - n * HALF_PI_3;
    double square = r * r, sine = 1, cosine = 1;
    for (int k = 20; k > 0; k -= 2) {
        sine = 1 - sine * square / (double)(k * (k + 1));
        cosine = 1 - cosine * square / (double)(k * (k - 1));
    }
    sine = sine * r;
    int64_t quadrant = (int64_t)n & 3;
    *out_sine = quadrant == 0 ? sine : quadrant == 1 ? cosine : quadrant == 2 ? -sine : -cosine;
    *out_cosine = quadrant == 0 ? cosine : quadrant == 1 ? -sine : quadrant == 2 ? -cosine : sine;
}

/* The angle between positions of pair i: theta^(-i / pairs); with a factor long waves are slowed
 * down by it, short ones are not, and those between are mixed. */
static double frequency(const struct cpu_rope *rope, int64_t i, int64_t pairs)
{
    double f = exponential(-(double)i / (double)pairs * logarithm(rope->theta));
    if (rope->factor == 1)
        return f;
    double waves = rope->context * f / TWO_PI; /* in the original context */
    if (waves < rope->low)
        return f / rope->factor;
    if (waves > rope->high)
        return f;
    double mix = (waves - rope->low) / (rope->high - rope->low);
    return (1 - mix) * f / rope->factor + mix * f;
}

struct rope_run {
    const struct cpu_rope *rope;
    float *out;
    int64_t length, pairs;
};

static void pair_item(void *arg, int64_t i, int worker)
{
    (void)worker;
    const struct rope_run *run = arg;
    int64_t pairs = run->pairs;
    double f = frequency(run->rope, i, pairs);
    for (int64_t t = 0; t < run->length; t++) {
        double sine, cosine;
        float *out = run->out + t * 4 * pairs + i;
        sine_and_cosine((double)t * f, &sine, &cosine);
        out[0] = out[3 * pairs] = (float)cosine;
        out[pairs] = (float)-sine;
        out[2 * pairs] = (float)sine;
    }
}

void cpu_rope_table(struct cpu_pool *pool, float *out, int64_t length, int64_t pairs,
                    const struct cpu_rope *rope)
{
    assert(length >= 0 && pairs >= 0);
    struct rope_run run = {rope, out, length, pairs};
    cpu_pool_run(pool, pairs, pair_item, &run);
}
