/* Named kernels of a few lines, with the CPU device's bits. */
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
#endif
