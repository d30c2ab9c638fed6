/* SPDX-License-Identifier: Apache-2.0 */
/* A note on kernels that the profile does not name, whose prices are those of the description. */
#ifndef REMAT_TOOLS_COMPILE_UNNAMED_H
#define REMAT_TOOLS_COMPILE_UNNAMED_H

#include "program.h"

/* Nothing where it names all but transfers. */
remat_status unnamed_note(struct remat_arena *arena, struct remat_program *program);

#endif
