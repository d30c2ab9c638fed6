/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops compiled once per instruction set, and the choice between them at run time.
 *
 * The files isa_*.c are compiled several times, each time with CPU_ISA defined to the suffix of
 * that instruction set; isa_table.c collects their functions in one table. All tables give the
 * same bits: only speed differs. To add a function: a member here, its definition in an isa_ file
 * under CPU_NAME(name), its prototype in isa.h and a line in isa_table.c. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include "base.h"

enum cpu_isa {
    CPU_ISA_BASELINE, /* what the compiler targets by default; fmaf calls where it lacks FMA */
    CPU_ISA_AVX2,     /* AVX2 and FMA */
    CPU_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL */
    CPU_ISA_COUNT
};

static inline void *cpu_element_at(const void *array, remat_dtype element, int64_t index)
{
    return (char *)(uintptr_t)array + index * remat_dtype_bytes(element);
}

/* Work is done in f32: elements of rounded dtypes (dtypes.def) are converted to and from it. */
typedef void cpu_widen(float *out, const void *in, int64_t count);
typedef void cpu_narrow(void *out, const float *in, int64_t count);

/* Packs a block of x for the sgemm; strides in elements, of rows and columns of the block. */
typedef void cpu_pack(const void *x, int64_t row, int64_t column, int64_t rows, int64_t columns,
                      float *packed);

/* out[i] = f(in[i]) for i < count; out == in is allowed, other overlap is not. */
typedef void cpu_map(float *out, const float *in, int64_t count);

/* Immutable and shared by all threads; every function is thread-safe on distinct outputs. */
struct cpu_functions {
    enum cpu_isa isa;
    const char *name; /* "baseline", "avx2", "avx512" */

    /* --- sgemm on packed blocks (cpu_sgemm.c) --- */
    int tile_rows, tile_columns; /* of the register tile; packing pads to multiples of them */
    /* By dtype, NULL of those that ops do not compute with. Packs m x k elements a[i * row + p *
     * column] into panels of tile_rows rows, and k x n elements b[p * row + j * column] into panels
     * of at most tile_columns columns. */
    cpu_pack *pack_a[REMAT_DTYPE_COUNT], *pack_b[REMAT_DTYPE_COUNT];
    /* With s the ascending FMA chain over k: c = s where `store`, c = c + s otherwise. */
    void (*multiply)(int64_t m, int64_t n, int64_t k, const float *packed_a, const float *packed_b,
                     float *c, int64_t ldc, bool store);

    /* --- rows of attention scores (cpu_attention.c) --- */
    /* One step of a softmax over `valid` scores of a row of `columns`, with *maximum the running
     * maximum of the row's earlier scores (-infinity at first), updated:
     * row[j] = exp(row[j] * scale - *maximum), 0 from `valid` on; returns the sum of the row (in 64
     * lanes). The memory of a row reaches to a multiple of 64 columns and is overwritten from
     * `columns` on. valid 0 leaves *maximum as it is. */
    float (*softmax_row)(float *row, int64_t valid, int64_t columns, float scale, float *maximum);
    /* p[j] = exp(p[j] * scale - lse), dp[j] = p[j] * (dp[j] - delta) * scale; both 0 from `valid`
     * to `columns`. Memory as above. */
    void (*softmax_gradient_row)(float *p, float *dp, int64_t valid, int64_t columns, float scale,
                                 float lse, float delta);
    float (*dot_row)(const float *x, const float *y, int64_t count); /* in 64 lanes */
    /* row[j] = uniforms[j] < p ? 0 : row[j] * factor */
    void (*dropout_row)(float *row, const float *uniforms, int64_t count, float p, float factor);

    /* --- by rounded dtype (cpu_bf16.h); NULL of others --- */
    cpu_widen *widen[REMAT_DTYPE_COUNT];
    cpu_narrow *narrow[REMAT_DTYPE_COUNT];

    /* --- random numbers (isa_random.c) --- */
    /* The 4 words of each Philox4x32-10 block in [first_block, first_block + blocks), in order:
     * counter = (block low, block high, site low, site high), key = (seed low, seed high). */
    void (*philox)(uint32_t *out, uint64_t first_block, int64_t blocks, uint64_t site,
                   uint64_t seed);
    /* out[i] = (word >> 8) * 2^-24 for the word at index + i of the same sequence, i < count. */
    void (*uniforms)(float *out, uint64_t index, int64_t count, uint64_t site, uint64_t seed);
    /* The same words as 4 * blocks standard normals, in pairs (cpu_fill.h). */
    void (*normals)(float *out, uint64_t first_block, int64_t blocks, uint64_t site, uint64_t seed);

    /* --- elementary functions (cpu_math.h) --- */
    cpu_map *exp, *log, *tanh, *erf, *sigmoid;
};

/* isa_table.c, once per instruction set; not all are built. */
extern const struct cpu_functions cpu_functions_baseline, cpu_functions_avx2, cpu_functions_avx512;

/* The table of an instruction set, NULL when this machine cannot run it or it was not built. */
const struct cpu_functions *cpu_functions_get(enum cpu_isa isa);
const struct cpu_functions *cpu_functions_best(void); /* never NULL */

#endif
