/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as text: the constants and calls around attention.cu. */
#ifndef REMAT_ATTENTION_H
#define REMAT_ATTENTION_H

#include "source.h"

/* The kernel of attention (attention.c) that the shape says: its body, threads, shared memory and
 * blocks; `s->columns`: the rows whose deltas, f32 each, lie in the workspace. All operands begin
 * at multiples of `alignment` bytes, at most 16. The arguments are the number of probabilities, the
 * columns, the operands, the parameters and, in backward, the workspace. */
remat_status cuda_write_attention(struct cuda_source *s, const struct remat_operand *operands,
                                  uint32_t operand_count, const double *parameters,
                                  uint32_t alignment, const struct remat_cuda_settings *settings);

#endif
