/* SPDX-License-Identifier: Apache-2.0 */
/* The arena over the schedule. */
#ifndef REMAT_DUMP_TIMELINE_H
#define REMAT_DUMP_TIMELINE_H

#include "dump.h"

/* Arena rows x schedule columns of the step's non-persistent part, as letters. */
remat_status dump_timeline(struct remat_arena *arena, const struct remat_program *program,
                           const uint8_t *classes, struct remat_text *out);

#endif
