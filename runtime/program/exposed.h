/* SPDX-License-Identifier: Apache-2.0 */
/* How long computation waits for each transfer. */
#ifndef REMAT_EXPOSED_H
#define REMAT_EXPOSED_H

#include "program.h"

/* exposed_ns[command], for the commands of the segment: of a transfer's predicted time that in
 * which computation waits, in one run of the segment; else 0. Over the segments of a step they add
 * up to the exposed_ns of remat_program_communication. */
remat_status remat_program_exposed(const struct remat_program *program,
                                   const struct remat_segment *segment, struct remat_arena *scratch,
                                   uint64_t *exposed_ns);

#endif
