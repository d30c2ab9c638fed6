/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences that are longer than those a model was made for. */
#ifndef REMAT_TOOLS_COMPILE_POSITIONS_H
#define REMAT_TOOLS_COMPILE_POSITIONS_H

#include "program.h"

/* Adds a note where they are, by the plan's config.json. Learned positions are a limit: a graph
 * that has been bound has computed ones. */
remat_status positions_note(struct remat_arena *arena, struct remat_program *program);

#endif
