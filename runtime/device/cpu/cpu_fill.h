/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: constants and normal random numbers.
 *
 * The normal at logical index i uses words of the Philox4x32-10 block i / 4 (struct cpu_functions
 * defines counter and key): with words w0 .. w3,
 *     z0 = r(w0) cos(2 pi w1 / 2^32)   z1 = r(w0) sin(2 pi w1 / 2^32)   z2, z3 likewise of w2, w3
 *     r(w) = sqrt(-2 log u),  u = float(w >> 1) * 2^-31 + 2^-33
 * in fp32 with the functions of cpu_math.h, and the value is z[i mod 4] * stddev + mean. It is a
 * function of (seed, site, i) alone. |z| <= 6.8. */
#ifndef CPU_FILL_H
#define CPU_FILL_H

#include "cpu_isa.h"
#include "cpu_pool.h"

/* The value is rounded to `type`, and so is each normal. */
void cpu_fill_constant(struct cpu_pool *pool, const struct cpu_functions *functions, void *out,
                       remat_dtype type, int64_t count, float value);

/* out[j] = the value at index first + j, for j < count. */
struct cpu_normal {
    uint64_t seed, site, first;
    float mean, stddev;
};
void cpu_fill_normal(struct cpu_pool *pool, const struct cpu_functions *functions, void *out,
                     remat_dtype type, int64_t count, const struct cpu_normal *normal);

#endif
