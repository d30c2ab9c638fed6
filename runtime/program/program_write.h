/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a program. */
#ifndef REMAT_PROGRAM_WRITE_H
#define REMAT_PROGRAM_WRITE_H

#include "program.h"

/* Program -> file bytes in `arena`. Same program, same bytes. */
remat_status remat_program_write(remat_context *ctx, const struct remat_program *program,
                                 struct remat_arena *arena, const void **out_data,
                                 size_t *out_bytes);

#endif
