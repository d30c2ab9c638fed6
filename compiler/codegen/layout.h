/* SPDX-License-Identifier: Apache-2.0 */
/* How threads are laid over a kernel's space. */
#ifndef REMAT_LAYOUT_H
#define REMAT_LAYOUT_H

#include "source.h"

/* Shape, width, and what is kept. */
void cuda_choose_layout(struct cuda_source *s, const struct remat_cuda_settings *settings);
/* The operand is a value that all tensors of a launch of CUDA_TENSORS share. */
bool cuda_is_shared(const struct cuda_source *s, uint32_t operand);
/* Words of a launch of CUDA_TENSORS: before those of the first tensor, and of each. */
uint32_t cuda_head_words(const struct cuda_source *s);
uint32_t cuda_tensor_words(const struct cuda_source *s);
/* Where the operand's address is among the words; with CUDA_TENSORS from the tensor's first on,
 * unless it is shared. */
uint32_t cuda_word_of(const struct cuda_source *s, uint32_t operand);

#endif
