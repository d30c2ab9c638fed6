/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command that was made ready. */
#ifndef CPU_TILE_RUN_H
#define CPU_TILE_RUN_H

#include "cpu_pool.h"
#include "cpu_tile.h"

/* Thread w uses scratch + w * scratch_stride. */
void cpu_tile_run(const struct cpu_tile *tile, struct cpu_pool *pool, char *memory, char *scratch,
                  uint64_t scratch_stride);

#endif
