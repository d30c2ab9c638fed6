/* The record of what was decided, for dump and report; used by lower.c only. */
#ifndef REMAT_DECISIONS_H
#define REMAT_DECISIONS_H

#include "lower.h"

/* One record a forward value that the backward pass needs, in graph order: SAVE when it reads the
 * original, RECOMPUTE when it reads a clone that owns bytes. Fills decisions and recomputed_layers.
 */
remat_status remat_lower_decisions(struct remat_arena *arena, const struct remat_lowering *lowering,
                                   const char *const *root_name, struct remat_program *out);

#endif
