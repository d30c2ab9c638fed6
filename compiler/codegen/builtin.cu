/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels of a few lines, with the CPU device's bits. */
#ifndef REMAT_NAMED
#define REMAT_NAMED
#define NOT_A_NUMBER float_of_bits(0xffffffffu)

/* --- normal random numbers by Box and Muller --- */

/* Sine and cosine of 2 pi turn / 2^32: the quadrant in integers, polynomials for the rest. */
DEV void sine_and_cosine_of_turn(u32 turn, float *sine, float *cosine)
{
    const u32 quadrant = (turn + 0x20000000u) >> 30;
    const float x = (float)(i32)(turn - (quadrant << 30)) * 1.46291807926715968e-9f, z = x * x;
    float s = -1.9515295891e-4f, c = 2.443315711809948e-5f;
    s = s * z + 8.3321608736e-3f;
    c = c * z - 1.388731625493765e-3f;
    s = s * z - 1.6666654611e-1f;
    c = c * z + 4.166664568298827e-2f;
    s = s * z * x + x;
    c = c * (z * z) - 0.5f * z + 1.0f;
    const u32 swap = quadrant & 1;
    *sine = float_of_bits(bits_of_float(swap ? c : s) ^ quadrant >> 1 << 31);
    *cosine = float_of_bits(bits_of_float(swap ? s : c) ^ (quadrant + 1) >> 1 << 31);
}

DEV float radius_of_word(u32 word)
{
    const float u = (float)(i32)(word >> 1) * 4.65661287307739258e-10f + 1.16415321826934814e-10f;
    return square_root(-2.0f * logarithm(u));
}

/* Elements 4 quarter ... 4 quarter + 3 of the tensor whose name has the hash `site`. */
DEV void four_normals(float *x, u64 seed, u64 site, u64 quarter)
{
    struct random_state s;
    s.seed_low = (u32)seed;
    s.seed_high = (u32)(seed >> 32);
    s.site = (u32)site;
    s.step = (u32)(site >> 32);
    s.first = 0;
    const struct u32x4 words = random_words(&s, quarter);
    float sine, cosine;
    sine_and_cosine_of_turn(words.y, &sine, &cosine);
    x[0] = radius_of_word(words.x) * cosine;
    x[1] = radius_of_word(words.x) * sine;
    sine_and_cosine_of_turn(words.w, &sine, &cosine);
    x[2] = radius_of_word(words.z) * cosine;
    x[3] = radius_of_word(words.z) * sine;
}

/* A thread has four of the `count` elements, which are one call of Philox. */
DEV void fill_normal(u64 item, u64 count, u8 *out, double mean, double deviation, u64 site, u64 seed,
                     u32 dtype, u32 width)
{
    const u64 left = count - item * 4;
    u8 *const to = out + item * 4 * dtype_bytes(dtype);
    float x[4];
    four_normals(x, seed, site, item);
    UNROLL for (u32 e = 0; e < 4; e++) x[e] = x[e] * (float)deviation + (float)mean;
    if (width > 1) {
        store_elements(dtype, to, x, 4, left < 4 ? (u32)left : 4);
        return;
    }
    UNROLL for (u32 e = 0; e < 4; e++)
        if (e < left)
            store_elements(dtype, to + e * dtype_bytes(dtype), x + e, 1, 1);
}

/* --- rotary positions: series in double, rounded once --- */
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

/* --- AdamW --- */

/* base^exponent, exponent >= 0 */
DEV double power(double base, i32 exponent)
{
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

DEV void adamw_coefficients(const u8 *lr, const u8 *step, u8 *out, double beta1, double beta2,
                            double weight_decay)
{
    const double rate = (double)load_f32(lr);
    const i32 count = (i32)read4(step);
    const i32 exponent = count < 1 ? 1 : count;
    const float decay = (float)(1.0 - rate * weight_decay);
    const float factor = (float)(rate / (1.0 - power(beta1, exponent)));
    const float root = (float)square_root_double(1.0 - power(beta2, exponent));
    store_f32(out, count < 1 ? NOT_A_NUMBER : decay);
    store_f32(out + 4, count < 1 ? NOT_A_NUMBER : factor);
    store_f32(out + 8, count < 1 ? NOT_A_NUMBER : root);
}

/* --- microbatches --- */

/* A thread moves `unit` bytes of a part, which has `units` of them; there are `parts`. */
DEV void batch_slice(u64 item, u64 units, u64 parts, const u8 *in, const u8 *index, u8 *out, u32 unit)
{
    const u64 part = (u64)read4(index);
    const u8 *const from = in + (part * units + item) * unit;
    if (unit == 2) {
        write2(out + item * 2, part < parts ? read2(from) : 0xffffu);
        return;
    }
    u32 x[4];
    UNROLL for (u32 e = 0; e < unit / 4; e++) x[e] = 0xffffffffu;
    if (part < parts)
        read_words(x, from, unit / 4);
    write_words(out + item * unit, x, unit / 4);
}

DEV void advance(u8 *index, double count)
{
    const i32 i = (i32)read4(index);
    write4(index, i >= 0 && i < (i32)count - 1 ? (u32)i + 1 : 0);
}
#endif
