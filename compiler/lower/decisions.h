/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what was decided, for dump and report; used by lower.c only. */
#ifndef REMAT_DECISIONS_H
#define REMAT_DECISIONS_H

#include "lower.h"

REMAT_INDEX(remat_command_id); /* of a program */

/* One record a forward value that the backward pass needs, in order: SAVE when it reads the
 * original, RECOMPUTE when a clone owns bytes, INLINE when there are clones and none does; TWICE
 * or TWICE_INLINE likewise, of the last round's clones, when there are two rounds. A value that
 * never leaves its kernel when everything is saved has no record. Fills decisions and
 * recomputed_layers; `first_command` is the segment's. */
void remat_lower_decisions(struct remat_arena *arena, struct remat_arena *scratch,
                           const struct remat_lowering *lowering, remat_command_id first_command,
                           const char *const *root_name, struct remat_program *out);

#endif
