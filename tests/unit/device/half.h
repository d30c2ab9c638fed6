/* SPDX-License-Identifier: Apache-2.0 */
/* f16 by arithmetic in double: what conversions are held against. */
#ifndef TESTS_HALF_H
#define TESTS_HALF_H

#include <math.h>
#include <stdint.h>

static inline float half_widen(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                      : ldexp(mantissa, -24);
    return (float)(half >> 15 ? -magnitude : magnitude);
}

/* To nearest, ties to even; from 65520 on infinity. */
static inline uint16_t half_narrow(float x)
{
    double magnitude = fabs((double)x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (isnan(x))
        return 0x7fff;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    if (magnitude == 0)
        return sign;
    frexp(magnitude, &exponent);
    exponent = exponent - 11 < -24 ? -24 : exponent - 11; /* of the last place */
    int places = (int)nearbyint(ldexp(magnitude, -exponent));
    return (uint16_t)(sign | (((exponent + 24) << 10) + places));
}

#endif
