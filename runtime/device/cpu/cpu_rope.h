/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rotary positions (builtin_kernels.def: rope_table). No libm: its bits depend on no
 * library's version. */
#ifndef CPU_ROPE_H
#define CPU_ROPE_H

#include "cpu_pool.h"

struct cpu_rope {
    double theta, factor, low, high, context;
};

/* out [length, 2, 2, pairs], dense. */
void cpu_rope_table(struct cpu_pool *pool, float *out, int64_t length, int64_t pairs,
                    const struct cpu_rope *rope);

#endif
