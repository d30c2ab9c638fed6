/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's loops by instruction set. */
#ifndef CPU_TILE_TABLE_H
#define CPU_TILE_TABLE_H

#include "cpu_tile_isa.h"

/* The table of an instruction set that the machine can run (cpu_functions_get is not NULL). */
const struct cpu_tile_table *cpu_tile_table_get(enum cpu_isa isa);

#endif
