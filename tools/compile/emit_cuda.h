/* SPDX-License-Identifier: Apache-2.0 */
/* --emit-cuda. */
#ifndef REMAT_TOOLS_COMPILE_EMIT_CUDA_H
#define REMAT_TOOLS_COMPILE_EMIT_CUDA_H

#include "files.h"

#include <remat/compile.h>

/* REMAT_ERROR_USAGE: there is something in the folder. */
remat_status emit_cuda_check(remat_context *ctx, const char *folder);
/* Writes the plan's code to a claimed folder. */
remat_status emit_cuda(remat_context *ctx, struct remat_outputs *outputs, remat_compiled *compiled,
                       const char *folder);

#endif
