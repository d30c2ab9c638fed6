/* SPDX-License-Identifier: Apache-2.0 */
/* Notes that the tool adds to a plan. */
#ifndef REMAT_TOOLS_NOTES_H
#define REMAT_TOOLS_NOTES_H

#include "program.h"

remat_status notes_add(struct remat_arena *arena, struct remat_program *program, const char *format,
                       ...) REMAT_PRINTF(3, 4);

#endif
