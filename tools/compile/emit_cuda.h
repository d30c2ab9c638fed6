/* SPDX-License-Identifier: Apache-2.0 */
/* --emit-cuda: the kernels of a plan as files. */
#ifndef REMAT_TOOLS_EMIT_CUDA_H
#define REMAT_TOOLS_EMIT_CUDA_H

#include "files.h"
#include "program.h"

/* REMAT_ERROR_USAGE when the folder has anything in it: kernels of another plan would lie among
 * those of this one. REMAT_ERROR_IO when it is no folder. */
remat_status emit_cuda_check(remat_context *ctx, const char *folder);

/* Writes KERNEL.cu of each kernel into the claimed folder, of each cubin KERNEL.ARCH.cubin and a
 * line of resources.csv. */
remat_status emit_cuda(struct remat_arena *arena, struct remat_outputs *outputs,
                       const struct remat_program *program, const char *folder);

#endif
