/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions over arrays. */
#include "cpu_bf16.h"
#include "cpu_math.h"
#include "isa.h"

/* Conversion of arrays of bf16. */

void CPU_NAME(cpu_widen)(float *restrict out, const uint16_t *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = cpu_widen_bf16(in[i]);
}

void CPU_NAME(cpu_narrow)(uint16_t *restrict out, const float *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = cpu_narrow_bf16(in[i]);
}

#define MAP(name)                                                                                  \
    void CPU_NAME(cpu_map_##name)(float *out, const float *in, int64_t count)                      \
    {                                                                                              \
        CPU_INDEPENDENT                                                                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            out[i] = cpu_##name(in[i]);                                                            \
    }

MAP(exp)
MAP(log)
MAP(tanh)
MAP(erf)
MAP(sigmoid)
