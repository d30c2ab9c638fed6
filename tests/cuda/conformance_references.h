/* SPDX-License-Identifier: Apache-2.0 */
/* What each primitive gives for a warp, in plain arithmetic that shares nothing with the emulator's
 * text: rounding by scaling and nearbyint, sums of products in double. CLOSE: how far off a result
 * may be, as a float, 8 words after it. Compiled for a host that does not flush subnormals. */
#ifndef CONFORMANCE_REFERENCES_H
#define CONFORMANCE_REFERENCES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES          32
#define TEAM           4 /* warps */
#define WORDS_PER_LANE 16
typedef uint32_t lanes[LANES][WORDS_PER_LANE];
#define REFERENCE(name) static void reference_##name(lanes in, lanes out)
#define EACH_LANE       for (int l = 0; l < LANES; l++)

static float to_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Word k as float32 arithmetic reads it, and a double as it writes it. */
#define X(k)      ((double)flush(to_float(in[l][k])))
#define PUT(k, x) (out[l][k] = to_bits(flush((float)(x))))

static void copy_words(lanes in, lanes out, int words)
{
    EACH_LANE memcpy(out[l], in[l], (size_t)words * 4);
}

REFERENCE(loads)
{
    copy_words(in, out, 8);
}
REFERENCE(stores)
{
    copy_words(in, out, 8);
}
REFERENCE(flags)
{
    EACH_LANE
    {
        out[l][0] = !isfinite(to_float(in[l][0]));
        out[l][1] = 0;
    }
    EACH_LANE out[l - l % 4][1] |= out[l][0];
}
REFERENCE(bit_patterns)
{
    copy_words(in, out, 4);
}

REFERENCE(multiply_high)
{
    EACH_LANE
    {
        out[l][0] = (uint32_t)(((uint64_t)in[l][0] * in[l][1]) >> 32);
        out[l][1] = (uint32_t)((0xd2511f53ull * in[l][2]) >> 32);
    }
}

REFERENCE(shared_memory)
{
    EACH_LANE out[l][0] = in[l % 2 ? l - 1 : l + 1][0], out[l][1] = in[31 - l][1];
}

/* `in` and `out` of TEAM warps. */
REFERENCE(barrier_of_warps)
{
    for (uint32_t round = 0; round < 8; round++)
        for (uint32_t l = 0; l < TEAM * LANES; l++) {
            uint32_t x = in[l][round], warp = l / LANES;
            for (uint32_t turn = 0; turn < (warp + round) % TEAM * 300; turn++)
                x = x * 1664525u + 1013904223u;
            uint32_t reader = (warp + 2 * TEAM - (round % 3 + 1)) % TEAM * LANES + (l % LANES ^ 31);
            out[reader][round] = x;
        }
}

REFERENCE(shuffles)
{
    EACH_LANE
    {
        for (int k = 0; k < 5; k++)
            out[l][k] = in[l ^ 1 << k][0];
        out[l][5] = in[31 - l][1];
        out[l][6] = in[l % 4][1];
    }
}

REFERENCE(votes)
{
    uint32_t votes[3] = {0};
    for (uint32_t lane = 0; lane < LANES; lane++) {
        votes[0] |= (in[lane][0] & 1) << lane;
        votes[1] |= (in[lane][1] >> 31) << lane;
        votes[2] |= (uint32_t)(in[lane][2] % 32 == lane) << lane;
    }
    EACH_LANE
    {
        memcpy(out[l], votes, sizeof votes);
        out[l][3] = 0;
        for (uint32_t bit = 0; bit < 32; bit++)
            out[l][3] += in[l][3] >> bit & 1;
    }
}

/* To the nearest multiple of its last place, ties to even; `digits` with the leading one. */
static double round_to(double x, int digits, int exponent_min)
{
    int exponent;
    frexp(x, &exponent);
    double place =
        ldexp(1, (exponent - 1 < exponent_min ? exponent_min : exponent - 1) - digits + 1);
    return isfinite(x) ? nearbyint(x / place) * place : x;
}

static uint32_t to_bf16(float x)
{
    return isnan(x) ? 0x7fff : to_bits((float)round_to(x, 8, -126)) >> 16;
}

static uint32_t to_f16(float value)
{
    double x = round_to(value, 11, -14), size = fabs(x);
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    double fraction = frexp(size, &exponent);
    if (isnan(x) || size > 65504)
        return isnan(x) ? 0x7fff : sign | 0x7c00;
    if (size < 0x1p-14)
        return sign | (uint32_t)(size * 0x1p24);
    return sign | (uint32_t)(exponent + 14) << 10 | (uint32_t)((fraction - 0.5) * 2048);
}

static double of_f16(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double of_bf16(uint32_t bits)
{
    return (double)to_float(bits << 16);
}

REFERENCE(narrow_pair)
{
    EACH_LANE for (int k = 0; k < 4; k++) out[l][k] =
        to_bf16(to_float(in[l][2 * k])) | to_bf16(to_float(in[l][2 * k + 1])) << 16;
}

REFERENCE(narrow_half_pair)
{
    EACH_LANE for (int k = 0; k < 4; k++) out[l][k] =
        to_f16(to_float(in[l][2 * k])) | to_f16(to_float(in[l][2 * k + 1])) << 16;
}

REFERENCE(widen_half)
{
    EACH_LANE out[l][0] = to_bits((float)of_f16(in[l][0] & 0xffff)),
              out[l][1] = to_bits((float)of_f16(in[l][1] >> 16));
}

/* Rounded to double first, which changes no float of these operations: 53 >= 2 * 24 + 2 digits. */
REFERENCE(square_root)
{
    EACH_LANE PUT(0, sqrt(X(0))), PUT(1, sqrt(fabs(X(1))));
}

REFERENCE(divide)
{
    EACH_LANE PUT(0, X(0) / X(1)), PUT(1, 1.0 / X(2));
}

REFERENCE(add)
{
    EACH_LANE PUT(0, X(0) + X(1)), PUT(1, X(2) - X(3));
}

REFERENCE(multiply_then_add)
{
    EACH_LANE PUT(0, X(0) * X(1)), PUT(1, (double)flush((float)(X(2) * X(3))) + X(4));
}

REFERENCE(multiply_add)
{
    EACH_LANE PUT(0, fmaf((float)X(0), (float)X(1), (float)X(2)));
}

REFERENCE(maximum)
{
    EACH_LANE PUT(0, isnan(X(0)) || X(1) > X(0) ? X(1) : X(0));
}

REFERENCE(exponential2)
{
    EACH_LANE
    {
        PUT(0, exp2(X(0)));
        out[l][8] = to_bits((float)(exp2(X(0)) * 0x1p-21 + 0x1p-126)); /* 2^-22 and a place */
    }
}

REFERENCE(conversions)
{
    EACH_LANE
    {
        out[l][0] = to_bits((float)in[l][0]);
        out[l][1] = to_bits((float)(int32_t)in[l][1]);
        out[l][2] = (uint32_t)(int32_t)to_float((in[l][2] & 0x80ffffff) | 0x48000000);
    }
}

REFERENCE(doubles)
{
    EACH_LANE
    {
        double x[2];
        memcpy(x, in[l], sizeof x);
        volatile double product = x[0] * x[1]; /* rounded by itself */
        memcpy(out[l], (double[]){sqrt(x[0]), product + 1.0, x[0] / x[1]}, 24);
    }
}

REFERENCE(copies)
{
    EACH_LANE
    {
        int there = 31 - l;
        memcpy(out[l], in[there], 24);
        if (there % 3 == 0)
            memset(out[l], 0, 20);
    }
}

/* Row r of matrix m is what lane 8 m + r copied. */
static uint32_t element(lanes in, int matrix, int row, int column)
{
    return in[8 * matrix + row][column / 2] >> 16 * (column % 2) & 0xffff;
}

REFERENCE(matrices)
{
    EACH_LANE for (int m = 0; m < 4; m++)
    {
        int row = l / 4, column = l % 4 * 2;
        out[l][m] = element(in, m, row, column) | element(in, m, row, column + 1) << 16;
        out[l][4 + m] = element(in, m, column, row) | element(in, m, column + 1, row) << 16;
    }
}

/* The fragments as PTX's manual has them for m16n8k16. */
static void multiply(lanes in, lanes out, double of(uint32_t bits))
{
    double a[16][16], b[16][8];
    EACH_LANE for (int half = 0; half < 2; half++)
    {
        int shift = 16 * half, k = l % 4 * 2 + half;
        for (int part = 0; part < 4; part++)
            a[l / 4 + part % 2 * 8][k + part / 2 * 8] = of(in[l][part] >> shift & 0xffff);
        for (int part = 0; part < 2; part++)
            b[k + part * 8][l / 4] = of(in[l][4 + part] >> shift & 0xffff);
    }
    EACH_LANE for (int c = 0; c < 4; c++)
    {
        double sum = (double)to_float(in[l][6 + c]), size = fabs(sum);
        for (int k = 0; k < 16; k++) {
            double term = a[l / 4 + c / 2 * 8][k] * b[k][l % 4 * 2 + c % 2];
            sum += term, size += fabs(term);
        }
        out[l][c] = to_bits((float)sum);
        out[l][8 + c] =
            to_bits((float)(size * 0x1p-18)); /* 17 terms, each cut to 2^-23 of the largest */
    }
}

REFERENCE(product_bf16)
{
    multiply(in, out, of_bf16);
}
REFERENCE(product_f16)
{
    multiply(in, out, of_f16);
}
#endif
