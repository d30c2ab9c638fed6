/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a plan carries the CUDA code that its commands mean. Text and cubins are programs, which
 * verification does not look into; that they are codegen's and NVRTC's own says what they do. */
#ifndef REMAT_CODE_CHECK_H
#define REMAT_CODE_CHECK_H

#include "codegen.h"
#include "nvrtc.h"

/* Emits the code anew and compares all but cubins: preludes, kernels, launches with their words,
 * workspace. `program` is verified and has code. REMAT_ERROR_INVALID names the first that differs.
 */
remat_status remat_cuda_check_text(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program);

/* Compiles the text anew, by `threads`, and compares cubins with what ptxas said of them. `program`
 * has cubins, and its text passed remat_cuda_check_text. REMAT_ERROR_INVALID names the first that
 * differs; *incomparable is NULL, or why nothing was compared: another version of NVRTC made them,
 * or this one does not know the architecture. */
remat_status remat_cuda_check_cubins(remat_context *ctx, struct remat_arena *arena,
                                     const struct remat_nvrtc *nvrtc, uint32_t threads,
                                     const struct remat_program *program,
                                     const char **incomparable);

#endif
