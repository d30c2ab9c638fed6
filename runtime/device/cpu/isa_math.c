/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions over arrays. */
#include "cpu_bf16.h"
#include "cpu_math.h"
#include "isa.h"

/* Conversion of arrays of rounded dtypes. */
#define ROUNDED_DTYPE(NAME, name, ...)                                                             \
    void CPU_NAME(cpu_widen_##name)(float *restrict out, const void *restrict in, int64_t count)   \
    {                                                                                              \
        const cpu_##name *restrict elements = in;                                                  \
        for (int64_t i = 0; i < count; i++)                                                        \
            out[i] = cpu_widen_##name(elements[i]);                                                \
    }                                                                                              \
                                                                                                   \
    void CPU_NAME(cpu_narrow_##name)(void *restrict out, const float *restrict in, int64_t count)  \
    {                                                                                              \
        cpu_##name *restrict elements = out;                                                       \
        for (int64_t i = 0; i < count; i++)                                                        \
            elements[i] = cpu_narrow_##name(in[i]);                                                \
    }
#include <remat/dtypes.def>

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
