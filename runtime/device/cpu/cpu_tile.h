/* SPDX-License-Identifier: Apache-2.0 */
/* Fused kernels on the CPU: an interpreter whose instructions are compiled loops over tiles of
 * CPU_TILE elements.
 *
 * Preparation turns the SSA list into stages, one pass over a row (or, with column reductions, over
 * all rows of a stripe of columns) each: an instruction runs in the stage that equals the number of
 * reductions it depends on in depth, and again in every later stage that needs it per element,
 * which reads memory again but needs none to keep it. What does not depend on the column is
 * computed once a row, what depends on neither, once a work item. Bits depend on the program and
 * its shapes only. */
#ifndef CPU_TILE_H
#define CPU_TILE_H

#include "cpu_pool.h"
#include "cpu_tile_isa.h"
#include "program.h"

struct cpu_tile_options {
    enum cpu_isa isa;
    uint32_t threads;      /* that stripes of columns are divided among; 0: 1 */
    uint64_t stream_bytes; /* outputs at least this large bypass the caches; 0: never */
    uint64_t column_sums;  /* of remat_column_block_rows; 0: REMAT_COLUMN_SUMS */
};

/* A fused kernel to be run over a space, with its operands. */
struct cpu_tile_source {
    const char *name; /* of the command, for messages */
    const struct remat_kernel_body *kernel;
    const struct remat_operand *operands; /* with as many strides as the space has axes */
    uint32_t operand_count;
    uint32_t rank;
    const int64_t *space;
    bool words; /* elements are moved as they are, not converted */
};

/* A command made ready: immutable, thread-safe, in the arena it was prepared in. */
struct cpu_tile;

/* Makes a command ready. Where the operands lie follows from the values and buffers of `program`.
 */
remat_status cpu_tile_prepare(remat_context *ctx, const struct remat_program *program,
                              const struct cpu_tile_source *source,
                              const struct cpu_tile_options *options, struct remat_arena *arena,
                              struct cpu_tile **out);

/* Scratch that each thread needs, aligned to REMAT_ALIGNMENT. */
uint64_t cpu_tile_scratch_bytes(const struct cpu_tile *tile);

/* Runs it. Thread w uses scratch + w * scratch_stride. */
void cpu_tile_run(const struct cpu_tile *tile, struct cpu_pool *pool, char *memory, char *scratch,
                  uint64_t scratch_stride);

/* The table of an instruction set that the machine can run (cpu_functions_get is not NULL). */
const struct cpu_tile_table *cpu_tile_table_get(enum cpu_isa isa);

#endif
