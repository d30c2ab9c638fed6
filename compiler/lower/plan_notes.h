/* SPDX-License-Identifier: Apache-2.0 */
/* Notes to a user beside the figures of a plan. */
#ifndef REMAT_PLAN_NOTES_H
#define REMAT_PLAN_NOTES_H

#include "program.h"
#include "unwind.h"

/* Of a plan with --zero: the parameters whose state every rank has whole, because the ranks do not
 * divide them. NULL: there is none. In `arena`. */
const char *remat_note_whole(struct remat_arena *arena, const struct remat_program *program);

#endif
