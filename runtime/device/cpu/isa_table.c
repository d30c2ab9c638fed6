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
    .pack_a = {CPU_NAME(cpu_pack_a_f32), CPU_NAME(cpu_pack_a_bf16)},
    .pack_b = {CPU_NAME(cpu_pack_b_f32), CPU_NAME(cpu_pack_b_bf16)},
    .multiply = CPU_NAME(cpu_multiply),
    .softmax_row = CPU_NAME(cpu_softmax_row),
    .softmax_gradient_row = CPU_NAME(cpu_softmax_gradient_row),
    .dot_row = CPU_NAME(cpu_dot_row),
    .dropout_row = CPU_NAME(cpu_dropout_row),
    .widen = CPU_NAME(cpu_widen),
    .narrow = CPU_NAME(cpu_narrow),
    .philox = CPU_NAME(cpu_philox),
    .uniforms = CPU_NAME(cpu_uniforms),
    .normals = CPU_NAME(cpu_normals),
    .exp = CPU_NAME(cpu_map_exp),
    .log = CPU_NAME(cpu_map_log),
    .tanh = CPU_NAME(cpu_map_tanh),
    .erf = CPU_NAME(cpu_map_erf),
    .sigmoid = CPU_NAME(cpu_map_sigmoid),
};
