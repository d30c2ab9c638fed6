/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: series in double, rounded once, with the CPU device's bits. */
#ifndef REMAT_ROPE_TABLE
#define REMAT_ROPE_TABLE
DEV double nearest(double x) { return (double)(i64)(x < 0.0 ? x - 0.5 : x + 0.5); }

DEV double exponential_double(double x)
{
    const double n = nearest(x / 6.93147180559945309417e-01);
    const double r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;
    double sum = 1.0;
    UNROLL_BY_4 for (i32 k = 16; k > 0; k--) sum = 1.0 + sum * r / (double)k;
    return double_of_bits(bits_of_double(sum) + ((u64)(i64)n << 52));
}

DEV double logarithm_double(double x)
{
    i64 e = 0;
    for (; x > 1.5; x = x / 2.0) e++;
    const double s = (x - 1.0) / (x + 1.0), square = s * s;
    double sum = 0.0;
    UNROLL_BY_4 for (i32 k = 31; k > 0; k -= 2) sum = sum * square + 1.0 / (double)k;
    return (double)e * 6.93147180369123816490e-01 +
           ((double)e * 1.90821492927058770002e-10 + 2.0 * s * sum);
}

DEV void sine_and_cosine(double x, double *out_sine, double *out_cosine)
{
    const double n = nearest(x / (6.28318530717958647693 / 4.0));
    const double r = ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) -
                     n * 2.02226624879595063154e-21;
    const double square = r * r;
    double sine = 1.0, cosine = 1.0;
    UNROLL_BY_4 for (i32 k = 20; k > 0; k -= 2) {
        sine = 1.0 - sine * square / (double)(k * (k + 1));
        cosine = 1.0 - cosine * square / (double)(k * (k - 1));
    }
    sine = sine * r;
    const i32 quadrant = (i32)((i64)n & 3);
    *out_sine = quadrant == 0 ? sine : quadrant == 1 ? cosine : quadrant == 2 ? -sine : -cosine;
    *out_cosine = quadrant == 0 ? cosine : quadrant == 1 ? -sine : quadrant == 2 ? -cosine : sine;
}

/* The angle between positions of pair `pair`; long waves are slowed down by `factor`. */
DEV double rope_frequency(u32 pair, u32 pairs, double theta, double factor, double low, double high,
                          double context)
{
    const double f = exponential_double(-(double)pair / (double)pairs * logarithm_double(theta));
    if (factor == 1.0)
        return f;
    const double waves = context * f / 6.28318530717958647693;
    if (waves < low)
        return f / factor;
    if (waves > high)
        return f;
    const double mix = (waves - low) / (high - low);
    return (1.0 - mix) * f / factor + mix * f;
}

/* A thread has the rotation of one pair at one position. */
DEV void rope_table(u64 item, u32 pairs, u8 *out, double theta, double factor, double low, double high,
                    double context)
{
    const u32 position = (u32)(item / pairs), pair = (u32)(item % pairs);
    double sine, cosine;
    sine_and_cosine((double)position * rope_frequency(pair, pairs, theta, factor, low, high, context),
                    &sine, &cosine);
    u8 *const to = out + ((u64)position * 4 * pairs + pair) * 4;
    store_f32(to, (float)cosine);
    store_f32(to + (u64)pairs * 4, (float)-sine);
    store_f32(to + (u64)pairs * 8, (float)sine);
    store_f32(to + (u64)pairs * 12, (float)cosine);
}
#endif

BODY(rope_table)
{
    rope_table(item, (u32)arguments.word[1], out, theta, factor, low, high, context);
}
