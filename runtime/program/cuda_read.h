/* SPDX-License-Identifier: Apache-2.0 */
/* The part of remat_program_read for CUDA code; private to this folder. */
#ifndef REMAT_CUDA_READ_H
#define REMAT_CUDA_READ_H

#include "program.h"
#include "reader.h"

/* `codes`: the plan's vector, of one table or none. */
remat_status remat_cuda_read(struct remat_reader *reader, struct remat_fb_tables codes,
                             uint32_t command_count, struct remat_cuda_code *out);

#endif
