/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_tile_table.h"

const struct cpu_tile_table *cpu_tile_table_get(enum cpu_isa isa)
{
#if defined(__x86_64__)
    static const struct cpu_tile_table *const tables[CPU_ISA_COUNT] = {
        [CPU_ISA_BASELINE] = &cpu_tile_table_baseline,
        [CPU_ISA_AVX2] = &cpu_tile_table_avx2,
        [CPU_ISA_AVX512] = &cpu_tile_table_avx512,
    };
    return tables[isa];
#else
    (void)isa;
    return &cpu_tile_table_baseline;
#endif
}
