/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers for other packers. */
#ifndef REMAT_DUMP_MEMORY_CSV_H
#define REMAT_DUMP_MEMORY_CSV_H

#include "dump.h"

/* The buffers as MiniMalloc's CSV: id,lower,upper,size,offset; lifespans in commands, [lower,
 * upper). Persistent buffers span all commands. Behind these columns what the buffer holds
 * (labels.h) and its class. REMAT_ERROR_MEMORY. */
remat_status dump_memory_csv(struct remat_arena *arena, const struct remat_program *program,
                             struct remat_text *out);

#endif
