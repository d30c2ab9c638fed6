/* SPDX-License-Identifier: Apache-2.0 */
/* bf16: the upper half of an f32. Integer operations only, so that subnormals convert as they are
 * whatever the thread flushes. */
#ifndef CPU_BF16_H
#define CPU_BF16_H

#include "cpu_math.h"

typedef uint16_t cpu_bf16;

static inline float cpu_widen_bf16(cpu_bf16 x)
{
    return cpu_float_of_bits((uint32_t)x << 16);
}

/* The bits of x rounded to nearest, ties to even, in the upper half. NaN stays NaN. */
static inline uint32_t cpu_bf16_bits(float x)
{
    uint32_t bits = cpu_bits_of_float(x);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded;
}

static inline cpu_bf16 cpu_narrow_bf16(float x)
{
    return (cpu_bf16)(cpu_bf16_bits(x) >> 16);
}

static inline float cpu_round_bf16(float x)
{
    return cpu_float_of_bits(cpu_bf16_bits(x) & 0xffff0000u);
}

#endif
