/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a program. */
#ifndef REMAT_PROGRAM_READ_H
#define REMAT_PROGRAM_READ_H

#include "program.h"

/* File bytes -> program in `arena` (which it needs to outlive), structurally verified by the
 * FlatBuffers library, then by remat_program_verify and remat_program_simulate. `name` starts every
 * message. */
remat_status remat_program_read(remat_context *ctx, const char *name, const void *data,
                                size_t bytes, struct remat_arena *arena,
                                struct remat_program **out);

#endif
