/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a program. */
#ifndef REMAT_PROGRAM_VERIFY_H
#define REMAT_PROGRAM_VERIFY_H

#include "program.h"

/* All that must hold of a program whatever wrote it: indices, sizes, overflow, operands inside
 * their buffers, buffers inside the arena, kernels well-formed, no operand over one that is written
 * (kernel.h says when it may). O(size). Message: "commands[17] \"...\": ...". */
remat_status remat_program_verify(remat_context *ctx, const struct remat_program *program);

#endif
