/* SPDX-License-Identifier: Apache-2.0 */
/* --diff: what differs between two plans. Of a plan and itself there is nothing, in text no line.
 */
#ifndef REMAT_DUMP_DIFF_H
#define REMAT_DUMP_DIFF_H

#include "dump.h"

/* Costs and settings, values whose actions differ, by layers and then by name, and kernels with
 * another number of commands or another time in a step. */
remat_status dump_diff_text(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct remat_text *out);
remat_status dump_diff_json(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct dump_json *out);

#endif
