/* SPDX-License-Identifier: Apache-2.0 */
/* Notes that the tool adds to a plan: what its user should know of it. */
#ifndef REMAT_TOOLS_NOTES_H
#define REMAT_TOOLS_NOTES_H

#include "program.h"

/* Adds a note. */
remat_status remat_notes_add(struct remat_arena *arena, struct remat_program *program,
                             const char *format, ...) REMAT_PRINTF(3, 4);

/* On sequences that are longer than those a model was made for, by the plan's config.json. Learned
 * positions are a limit: a graph that has been bound has computed ones. */
remat_status remat_positions_note(struct remat_arena *arena, struct remat_program *program);

/* On products whose rows are not aligned to 16 bytes, which cost a GPU much (docs/cost_model.md),
 * if its training step spends more than a hundredth of its predicted time in them. */
remat_status remat_unaligned_note(struct remat_arena *arena, struct remat_program *program);

/* On kernels that the profile does not name, transfers aside: their prices are those of the
 * description. */
remat_status remat_unnamed_note(struct remat_arena *arena, struct remat_program *program);

#endif
