/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the isa_*.c files: names and prototypes of one instruction set, whose
 * suffix is CPU_ISA (baseline, avx2 or avx512). */
#ifndef ISA_H
#define ISA_H

#include "cpu_isa.h"

#define CPU_PASTE_(name, isa) name##_##isa
#define CPU_PASTE(name, isa)  CPU_PASTE_(name, isa)
#define CPU_NAME(name)        CPU_PASTE(name, CPU_ISA)

#define ISA_NUMBER_baseline CPU_ISA_BASELINE
#define ISA_NUMBER_avx2     CPU_ISA_AVX2
#define ISA_NUMBER_avx512   CPU_ISA_AVX512

/* Before a loop whose iterations are independent although pointers may be equal. */
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The register tile of the sgemm: TILE_ROWS x 3 vectors of VECTOR_LANES. */
#if defined(__AVX512F__)
#define TILE_ROWS    8
#define VECTOR_LANES 16
#elif defined(__AVX2__) && defined(__FMA__)
#define TILE_ROWS    4
#define VECTOR_LANES 8
#else
#define TILE_ROWS    4
#define VECTOR_LANES 4
#endif
#define TILE_COLUMNS (3 * VECTOR_LANES)

#ifdef CPU_ISA
/* isa_sgemm.c */
#define COMPUTED_DTYPE(NAME, name, ...)                                                            \
    cpu_pack CPU_NAME(cpu_pack_a_##name), CPU_NAME(cpu_pack_b_##name);
#include <remat/dtypes.def>
void CPU_NAME(cpu_multiply)(int64_t m, int64_t n, int64_t k, const float *packed_a,
                            const float *packed_b, float *c, int64_t ldc, bool store);
/* isa_rows.c */
float CPU_NAME(cpu_softmax_row)(float *row, int64_t valid, int64_t columns, float scale,
                                float *maximum);
void CPU_NAME(cpu_softmax_gradient_row)(float *p, float *dp, int64_t valid, int64_t columns,
                                        float scale, float lse, float delta);
float CPU_NAME(cpu_dot_row)(const float *x, const float *y, int64_t count);
void CPU_NAME(cpu_dropout_row)(float *row, const float *uniforms, int64_t count, float p,
                               float factor);
/* isa_random.c */
void CPU_NAME(cpu_philox)(uint32_t *out, uint64_t first_block, int64_t blocks, uint64_t site,
                          uint64_t seed);
void CPU_NAME(cpu_uniforms)(float *out, uint64_t index, int64_t count, uint64_t site,
                            uint64_t seed);
void CPU_NAME(cpu_normals)(float *out, uint64_t first_block, int64_t blocks, uint64_t site,
                           uint64_t seed);
/* isa_math.c */
#define ROUNDED_DTYPE(NAME, name, ...)                                                             \
    cpu_widen CPU_NAME(cpu_widen_##name);                                                          \
    cpu_narrow CPU_NAME(cpu_narrow_##name);
#include <remat/dtypes.def>
cpu_map CPU_NAME(cpu_map_exp), CPU_NAME(cpu_map_log), CPU_NAME(cpu_map_tanh), CPU_NAME(cpu_map_erf),
    CPU_NAME(cpu_map_sigmoid);
#endif

#endif
