/* SPDX-License-Identifier: Apache-2.0 */
/* The function table of one instruction set. */
#include "isa.h"

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

const struct cpu_functions CPU_NAME(cpu_functions) = {
    .name = TEXT(CPU_ISA),
    .isa = CPU_PASTE(ISA_NUMBER, CPU_ISA),
    .tile_rows = TILE_ROWS,
    .tile_columns = TILE_COLUMNS,
#define COMPUTED_DTYPE(NAME, name, ...)                                                            \
    .pack_a[REMAT_##NAME] = CPU_NAME(cpu_pack_a_##name),                                           \
    .pack_b[REMAT_##NAME] = CPU_NAME(cpu_pack_b_##name),
#include <remat/dtypes.def>
    .multiply = CPU_NAME(cpu_multiply),
    .softmax_row = CPU_NAME(cpu_softmax_row),
    .softmax_gradient_row = CPU_NAME(cpu_softmax_gradient_row),
    .dot_row = CPU_NAME(cpu_dot_row),
    .dropout_row = CPU_NAME(cpu_dropout_row),
#define ROUNDED_DTYPE(NAME, name, ...)                                                             \
    .widen[REMAT_##NAME] = CPU_NAME(cpu_widen_##name),                                             \
    .narrow[REMAT_##NAME] = CPU_NAME(cpu_narrow_##name),
#include <remat/dtypes.def>
    .philox = CPU_NAME(cpu_philox),
    .uniforms = CPU_NAME(cpu_uniforms),
    .normals = CPU_NAME(cpu_normals),
    .exp = CPU_NAME(cpu_map_exp),
    .log = CPU_NAME(cpu_map_log),
    .tanh = CPU_NAME(cpu_map_tanh),
    .erf = CPU_NAME(cpu_map_erf),
    .sigmoid = CPU_NAME(cpu_map_sigmoid),
};
