/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of an instruction set by cpuid. */
#include "cpu_isa.h"

#if defined(__x86_64__)
static bool supports(enum cpu_isa isa)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return isa == CPU_ISA_BASELINE || (isa == CPU_ISA_AVX2 && avx2) ||
           (isa == CPU_ISA_AVX512 && avx2 && avx512);
}

const struct cpu_functions *cpu_functions_get(enum cpu_isa isa)
{
    static const struct cpu_functions *const tables[CPU_ISA_COUNT] = {
        [CPU_ISA_BASELINE] = &cpu_functions_baseline,
        [CPU_ISA_AVX2] = &cpu_functions_avx2,
        [CPU_ISA_AVX512] = &cpu_functions_avx512,
    };
    return (unsigned)isa < CPU_ISA_COUNT && supports(isa) ? tables[isa] : NULL;
}
#else
const struct cpu_functions *cpu_functions_get(enum cpu_isa isa)
{
    return isa == CPU_ISA_BASELINE ? &cpu_functions_baseline : NULL;
}
#endif

const struct cpu_functions *cpu_functions_best(void)
{
    for (int isa = CPU_ISA_COUNT - 1; isa > CPU_ISA_BASELINE; isa--)
        if (cpu_functions_get((enum cpu_isa)isa))
            return cpu_functions_get((enum cpu_isa)isa);
    return &cpu_functions_baseline;
}
