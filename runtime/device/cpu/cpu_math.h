/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions in fp32 with defined bits: branch-free polynomials from additions,
 * multiplications, divisions and integer operations, each rounded once, so that a loop over them
 * vectorises and body, tail, vector width, compiler and instruction set give the same bits. They
 * must be compiled with -ffp-contract=off; -fno-math-errno -fno-trapping-math let the selects
 * vectorise and change no value. Square root and division are the hardware's.
 *
 * Maximal errors, in units in the last place of the exact result where that is normal, and special
 * values (NaN gives NaN everywhere):
 *   cpu_exp      0.97   above 88.8 infinity, below -104 zero
 *   cpu_log      1.07   0 gives -infinity, negative NaN
 *   cpu_tanh     1.31   odd
 *   cpu_erf      1.10   odd; for |x| > 2^-110, below which flushing costs up to 11 %
 *   cpu_sigmoid  2.4    for |x| < 87
 * With subnormals flushed (cpu_pool.h), subnormal operands are 0 and subnormal results become 0. */
#ifndef CPU_MATH_H
#define CPU_MATH_H

#include <stdint.h>
#include <string.h>

static inline float cpu_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t cpu_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float cpu_abs(float x)
{
    return cpu_float_of_bits(cpu_bits_of_float(x) & 0x7fffffffu);
}

static inline float cpu_copy_sign(float magnitude, float sign)
{
    return cpu_float_of_bits((cpu_bits_of_float(magnitude) & 0x7fffffffu) |
                             (cpu_bits_of_float(sign) & 0x80000000u));
}

/* e^x = 2^n e^r with n = x/ln 2 rounded (by adding 1.5 * 2^23) and ln 2 split so that n times its
 * first part is exact; e^r by the polynomial of Cephes' expf. The scale is applied in two halves.
 */
static inline float cpu_exp(float x)
{
    float c = x > 88.8f ? 88.8f : x;
    c = c < -104.0f ? -104.0f : c;
    float n = c * 1.44269504088896341f + 12582912.0f;
    int32_t k = (int32_t)(cpu_bits_of_float(n) - 0x4B400000u);
    n -= 12582912.0f;
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float y = p * (r * r) + r + 1.0f;
    int32_t half = k >> 1;
    return y * cpu_float_of_bits((uint32_t)(half + 127) << 23) *
           cpu_float_of_bits((uint32_t)(k - half + 127) << 23);
}

/* x = 2^e m with m in [2/3, 4/3); log m by a polynomial in m - 1 (after N. Juffa). */
static inline float cpu_log(float x)
{
    int32_t subnormal = x < 1.17549435e-38f;
    float scaled = subnormal ? x * 8388608.0f : x;
    uint32_t bits = cpu_bits_of_float(scaled);
    uint32_t exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
    float m = cpu_float_of_bits(bits - exponent);
    float e = (float)(int32_t)exponent * 1.19209290e-7f - (subnormal ? 23.0f : 0.0f);
    float f = m - 1.0f, s = f * f;
    float r = -0.130310059f, t = 0.140869141f;
    r = r * s - 0.121483512f;
    t = t * s + 0.139814854f;
    r = r * s - 0.166846126f;
    t = t * s + 0.200120345f;
    r = r * s - 0.249996200f;
    r = t * f + r;
    r = r * f + 0.333331972f;
    r = r * f - 0.5f;
    r = r * s + f;
    r = e * 0.693147182f + r;
    r = x == 0.0f ? -__builtin_inff() : r;
    r = x >= 0.0f ? r : __builtin_nanf("");
    return x == __builtin_inff() ? x : r;
}

static inline float cpu_sigmoid(float x)
{
    return 1.0f / (1.0f + cpu_exp(-x));
}

/* |x| < 0.625: odd polynomial (Cephes); else 1 - 2 / (e^2|x| + 1). */
static inline float cpu_tanh(float x)
{
    float a = cpu_abs(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    float t = 1.0f - 2.0f / (cpu_exp(a + a) + 1.0f);
    t = a > 9.1f ? 1.0f : t;
    float y = cpu_copy_sign(a < 0.625f ? p : t, x);
    return x != x ? x : y;
}

/* |x| <= 0.921875: odd polynomial; else 1 - e^q(|x|) (after N. Juffa). */
static inline float cpu_erf(float x)
{
    float t = cpu_abs(x), s = x * x;
    float r = -1.72853470e-5f, u = -3.88396438e-3f;
    r = r * t + 3.83197126e-4f;
    u = u * t + 2.42546219e-2f;
    r = r * s + u;
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    r = cpu_copy_sign(1.0f - cpu_exp(r), x);
    float q = -5.96761703e-4f;
    q = q * s + 4.99119423e-3f;
    q = q * s - 2.67681349e-2f;
    q = q * s + 1.12819925e-1f;
    q = q * s - 3.76125336e-1f;
    q = q * s + 1.28379166e-1f;
    q = q * x + x;
    return t > 0.921875f ? r : q;
}

/* Sine and cosine of 2 pi turn / 2^32: the nearest quadrant is found in integers, Cephes'
 * polynomials serve the rest, in [-pi/4, pi/4]. Absolute error below 1e-7. */
static inline void cpu_sin_cos_turn(uint32_t turn, float *sine, float *cosine)
{
    uint32_t quadrant = (turn + 0x20000000u) >> 30;
    float x = (float)(int32_t)(turn - (quadrant << 30)) * 1.46291807926715968e-9f; /* 2 pi / 2^32 */
    float z = x * x;
    float s = -1.9515295891e-4f, c = 2.443315711809948e-5f;
    s = s * z + 8.3321608736e-3f;
    c = c * z - 1.388731625493765e-3f;
    s = s * z - 1.6666654611e-1f;
    c = c * z + 4.166664568298827e-2f;
    s = s * z * x + x;
    c = c * (z * z) - 0.5f * z + 1.0f;
    uint32_t swap = quadrant & 1, negate_s = (quadrant >> 1) << 31;
    uint32_t negate_c = ((quadrant + 1) >> 1) << 31;
    *sine = cpu_float_of_bits(cpu_bits_of_float(swap ? c : s) ^ negate_s);
    *cosine = cpu_float_of_bits(cpu_bits_of_float(swap ? s : c) ^ negate_c);
}

#endif
