/* SPDX-License-Identifier: Apache-2.0 */
/* Normal random numbers by Box and Muller, with the CPU device's bits. */
#ifndef REMAT_FILL_NORMAL
#define REMAT_FILL_NORMAL
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
#endif

BODY(fill_normal)
{
    const u64 site = (u64)site_low | (u64)site_high << 32;
    fill_normal(item, arguments.word[1], out, mean, deviation, site, arguments.word[7], DTYPE_@dtype@, @width@);
}
