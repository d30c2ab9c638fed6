/* SPDX-License-Identifier: Apache-2.0 */
/* From a fused kernel to nodes. */
#ifndef CPU_TILE_READ_H
#define CPU_TILE_READ_H

#include "cpu_tile_builder.h"

/* Fills nodes, accesses and the tile's axes from a program and its operands' strides. */
remat_status cpu_tile_read(struct builder *b, const struct remat_program *program,
                           const struct cpu_tile_source *source);

#endif
