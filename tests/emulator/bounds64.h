/* SPDX-License-Identifier: Apache-2.0 */
/* Fused kernels in float64, read literally from kernel.h, each value with a bound on how far the
 * same in f32 may be from it. */
#ifndef EMULATOR_BOUNDS64_H
#define EMULATOR_BOUNDS64_H

#include "program.h"

struct bounds64 {
    uint64_t elements;    /* stored */
    uint64_t judged;      /* of these: the bound is at most 1 % of the value, or the value is NaN or
                             stored as exactly 0 */
    uint64_t outside;     /* of all whose bound is finite: farther from float64 than that */
    uint64_t column_sums; /* of remat_column_block_rows; 0: REMAT_COLUMN_SUMS */
};

/* Adds those of command `c`, a fused kernel, of a program whose arenas before and after it are
 * given. */
void bounds64_count(const struct remat_program *program, uint32_t c, const char *before,
                    const char *after, struct bounds64 *out);

#endif
