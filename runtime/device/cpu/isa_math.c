/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions over arrays. */
#include "cpu_math.h"
#include "isa.h"

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
