/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: CUDA code of a plan as files. */
#ifndef REMAT_CUDA_FILES_H
#define REMAT_CUDA_FILES_H

#include "program.h"

#include <remat/compile.h>

remat_status remat_cuda_files(struct remat_arena *arena, const struct remat_program *program,
                              const remat_code_file **out, uint32_t *out_count);

#endif
