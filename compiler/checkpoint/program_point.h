/* SPDX-License-Identifier: Apache-2.0 */
/* The program points at which the bound's cuts are made. */
#ifndef REMAT_PROGRAM_POINT_H
#define REMAT_PROGRAM_POINT_H

#include "closure.h"

/* The problem as it looks from the first run of a kernel, a program point: only what is read after
 * it is wanted, what it reads or writes itself is live in any case and counts in other_bytes. */
struct remat_program_point {
    remat_kernel_id kernel;
    struct remat_border border;
    uint64_t other_bytes; /* beside persistent tensors and kept items, live during the run in every
                             plan */
};
struct remat_program_points REMAT_LIST(struct remat_program_point);

/* Kernels whose program points are worth a cut: all of the loss, and the named ones of the head's
 * and the last layer's backward pass. */
struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model);

#endif
