/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of arrays of bf16. */
#include "cpu_bf16.h"
#include "isa.h"

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
