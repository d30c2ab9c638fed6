/* SPDX-License-Identifier: Apache-2.0 */
/* Products whose rows are not aligned to 16 bytes, which cost a GPU much (docs/cost_model.md). */
#ifndef REMAT_TOOLS_UNALIGNED_H
#define REMAT_TOOLS_UNALIGNED_H

#include "program.h"

/* A note on the plan of a GPU if its training step spends more than a hundredth of its predicted
 * time in them. */
remat_status unaligned_note(struct remat_arena *arena, struct remat_program *program);

#endif
