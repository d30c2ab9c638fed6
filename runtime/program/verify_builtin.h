/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: commands of built-in kernels. */
#ifndef REMAT_VERIFY_BUILTIN_H
#define REMAT_VERIFY_BUILTIN_H

#include "verify.h"

/* Shapes, access and parameters of a built-in kernel's operands; their number is right already. */
remat_status remat_verify_builtin(struct remat_verifier *verifier, uint32_t index);

#endif
