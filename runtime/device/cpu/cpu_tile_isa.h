/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the tile interpreter, one per instruction, compiled once per instruction set from
 * cpu_tile_isa.c. Every table gives the same bits.
 *
 * To add an instruction: a row in instructions.def and a loop in cpu_tile_isa.c. Loops of
 * dtypes are made from dtypes.def and the conversions in cpu_bf16.h. */
#ifndef CPU_TILE_ISA_H
#define CPU_TILE_ISA_H

#include "cpu_isa.h"
#include "kernel.h"

#define CPU_TILE 128 /* elements; a multiple of REMAT_REDUCTION_LANES */

/* Two of the four basic operations in one loop, each rounded: outer(inner(a, b), c). Loops of one
 * operation are bound by loads and stores, so these take little longer than one. */
enum cpu_tile_inner {
    CPU_TILE_INNER_add,
    CPU_TILE_INNER_sub,
    CPU_TILE_INNER_mul,
    CPU_TILE_INNER_div
};
enum cpu_tile_outer {
    CPU_TILE_OUTER_add,
    CPU_TILE_OUTER_sub,
    CPU_TILE_OUTER_rsub, /* c - inner */
    CPU_TILE_OUTER_mul,
    CPU_TILE_OUTER_div,
    CPU_TILE_OUTER_rdiv, /* c / inner */
    CPU_TILE_OUTER_COUNT
};
#define CPU_TILE_PAIR(inner, outer) (CPU_TILE_pairs + (inner)*CPU_TILE_OUTER_COUNT + (outer))

/* Executor-internal opcodes. */
enum {
    CPU_TILE_copy = REMAT_INSTRUCTION_COUNT,
    CPU_TILE_fill,   /* a[0] everywhere; d may be a */
    CPU_TILE_stream, /* copy past the caches where d is aligned to 64 bytes */
    CPU_TILE_pairs,  /* the first of CPU_TILE_PAIR */
    CPU_TILE_OP_COUNT = CPU_TILE_pairs + 4 * CPU_TILE_OUTER_COUNT
};

/* d[i] = op(a[i], b[i], c[i]) for i < count; d may equal an argument. Row reductions combine a[i]
 * into lane d[i mod 64]; column_sum adds a[i] to d[i]; d of a flag is an i32. */
typedef void cpu_tile_op(float *d, const float *a, const float *b, const float *c, int64_t count);

/* d[i] = memory[i * stride] as f32, and back. */
typedef void cpu_tile_load(float *d, const void *memory, int64_t stride, int64_t count);
typedef void cpu_tile_store(void *memory, int64_t stride, const float *a, int64_t count);

/* Beside the dtypes: 16 bits of any type, moved as they are. */
#define CPU_TILE_WORD16     REMAT_DTYPE_COUNT
#define CPU_TILE_TYPE_COUNT (REMAT_DTYPE_COUNT + 1)

/* Immutable; thread-safe on distinct outputs. NULL where an opcode or type has no loop. */
struct cpu_tile_table {
    cpu_tile_op *ops[CPU_TILE_OP_COUNT];
    cpu_tile_load *loads[CPU_TILE_TYPE_COUNT];
    cpu_tile_store *stores[CPU_TILE_TYPE_COUNT];
    /* struct cpu_functions' */
    void (*uniforms)(float *out, uint64_t index, int64_t count, uint64_t site, uint64_t seed);
};

extern const struct cpu_tile_table cpu_tile_table_baseline, cpu_tile_table_avx2,
    cpu_tile_table_avx512;

#endif
