/* SPDX-License-Identifier: Apache-2.0 */
/* Updates of many tensors as a program of a command each, and their emitted kernels in the
 * emulator: command by command and in groups they leave the CPU device's bits, and float64's to
 * rounding. */
#ifndef EMULATOR_TENSORS_H
#define EMULATOR_TENSORS_H

#include "kernels.h"

#define TENSORS_COUNT_MAX 128

enum tensors_update { TENSORS_ADAMW, TENSORS_ADAMW_MASTER /* of bf16 */, TENSORS_SGD };

struct tensors {
    enum tensors_update update;
    uint32_t count; /* of tensors, each with a command; coefficients and flag are those of all */
    struct remat_program program; /* with its CUDA code */
    struct remat_cuda_groups groups;
    char *initial, *expected; /* the arena, before and after on the CPU; tensors_release */
};

/* Tensor t has `lengths[t % length_count]` elements, and begins at element `offsets[t %
 * offset_count]` of its buffers. Everything else is in `arena`. Stops the process with exit code 1
 * when the updates cannot be emitted or run on the CPU. */
void tensors_make(remat_context *ctx, struct remat_arena *arena, enum tensors_update update,
                  uint32_t count, const int64_t *lengths, uint32_t length_count,
                  const uint64_t *offsets, uint32_t offset_count, struct tensors *out);
/* An element of the tensor's gradient, the first or of odd tensors the last, becomes the f32 of
 * these bits, of which bf16 has the upper half. */
void tensors_spoil(remat_context *ctx, struct tensors *t, uint32_t tensor, uint32_t word);
int32_t tensors_flag(const struct tensors *t); /* as the CPU leaves it; it was 0 */
void tensors_release(struct tensors *t);
/* NULL, or what is wrong with what the kernels of `library` leave (valid until the next call):
 * command by command, then in groups, each in so many orders of threads and blocks, the first being
 * ascending. */
const char *tensors_run(const struct tensors *t, void *library, uint64_t orders);

#endif
