/* SPDX-License-Identifier: Apache-2.0 */
/* Notes for the user that accompany the figures of a plan. */
#ifndef REMAT_PLAN_NOTES_H
#define REMAT_PLAN_NOTES_H

#include "program.h"
#include "unwind.h"

/* A note that lists the parameters whose state every rank holds whole although the plan has --zero,
 * because the ranks do not divide them. NULL: there is none. In `arena`. */
const char *remat_note_whole(struct remat_arena *arena, const struct remat_program *program);

#endif
