/* SPDX-License-Identifier: Apache-2.0 */
/* The part of remat_program_write for CUDA code; private to this folder. */
#ifndef REMAT_CUDA_WRITE_H
#define REMAT_CUDA_WRITE_H

#include "program.h"
#include "writer.h"

/* Features that a reader must know: REMAT_FEATURE bits (reader.h). */
uint64_t remat_cuda_features(const struct remat_cuda_code *code);
/* A vector of one table, of none when there is no code. */
remat_status remat_cuda_write(struct remat_writer *writer, const struct remat_cuda_code *code,
                              uint32_t command_count, struct remat_fb_tables *out);

#endif
