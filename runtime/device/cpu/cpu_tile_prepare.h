/* SPDX-License-Identifier: Apache-2.0 */
/* Making a command ready. */
#ifndef CPU_TILE_PREPARE_H
#define CPU_TILE_PREPARE_H

#include "cpu_tile.h"

/* Where the operands lie follows from the values and buffers of `program`. */
remat_status cpu_tile_prepare(remat_context *ctx, const struct remat_program *program,
                              const struct cpu_tile_source *source,
                              const struct cpu_tile_options *options, struct remat_arena *arena,
                              struct cpu_tile **out);

/* Scratch that each thread needs, aligned to REMAT_ALIGNMENT. */
uint64_t cpu_tile_scratch_bytes(const struct cpu_tile *tile);

#endif
