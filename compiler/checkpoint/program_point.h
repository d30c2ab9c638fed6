/* SPDX-License-Identifier: Apache-2.0 */
/* The program points at which the bound's cuts are made. */
#ifndef REMAT_PROGRAM_POINT_H
#define REMAT_PROGRAM_POINT_H

#include "closure.h"
#include "live.h"

/* The problem at a program point, the first run of a kernel: only values that are read after it are
 * wanted; its own operands are live in any case and count in other_bytes. */
struct remat_program_point {
    remat_kernel_id kernel;
    struct remat_border border;
    uint64_t other_bytes; /* beside persistent tensors and kept items, live during the run in every
                             plan */
};
struct remat_program_points REMAT_LIST(struct remat_program_point);

/* Kernels whose program points are worth a cut: all of the loss, and the built-in ones of the
 * backward pass up to the end of the last layer's. */
struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model,
                                               const struct remat_live *live);

#endif
