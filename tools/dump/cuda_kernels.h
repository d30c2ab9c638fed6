/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the views of kernels and of the summary. */
#ifndef REMAT_DUMP_CUDA_KERNELS_H
#define REMAT_DUMP_CUDA_KERNELS_H

#include "dump.h"

/* A line for each CUDA kernel and architecture, in the order of the plan. */
remat_status dump_cuda_text(struct remat_arena *arena, const struct remat_program *program,
                            struct remat_text *out);
remat_status dump_cuda_json(struct remat_arena *arena, const struct remat_program *program,
                            struct dump_json *out);
void dump_cuda_summary(const struct remat_program *program, struct remat_text *out); /* a line */

#endif
