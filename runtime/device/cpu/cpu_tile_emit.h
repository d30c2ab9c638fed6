/* SPDX-License-Identifier: Apache-2.0 */
/* From nodes to stages. */
#ifndef CPU_TILE_EMIT_H
#define CPU_TILE_EMIT_H

#include "cpu_tile_builder.h"

/* Writes the steps of all stages. */
remat_status cpu_tile_emit(struct builder *b);

#endif
