/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of tests/unit/device as a program of one command, with its emitted kernels. */
#ifndef EMULATOR_ITEM_H
#define EMULATOR_ITEM_H

#include "bounds64.h"
#include "kernels.h"
#include "sample.h"

struct item { /* a sample as a program of one command */
    struct sample sample;
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_cuda_code code;
    char key[32];
    bool any_bits; /* operand 0 has floats of all sizes, infinities and NaN */
};

/* Stops the process with exit code 1 when the sample cannot be emitted. */
void item_make(remat_context *ctx, struct remat_arena *arena, uint64_t number, struct item *item);
/* Each function of one argument and each conversion, each element of a long row one. */
void item_make_functions(remat_context *ctx, struct remat_arena *arena, struct item *item);
/* So many sums of columns of one kernel, from bf16. */
void item_make_sums(remat_context *ctx, struct remat_arena *arena, uint32_t sums,
                    struct item *item);
void item_append_text(const struct item *item, struct remat_text *text);
/* NULL, or how what the kernels of `library` do differs from kernel.h, which is looked at under
 * `orders` orders of threads and blocks, the first being ascending. */
const char *item_run(remat_context *ctx, const struct item *item, void *library, uint64_t orders);
/* NULL, or how kernel.h read literally differs, on memory of its own, from the CPU device (of items
 * without f16 whose blocks of rows are its own, bit for bit) or from float64 (by more than
 * rounding). Adds to `bounds`. */
const char *item_check(remat_context *ctx, const struct item *item, struct bounds64 *bounds);

#endif
