/* SPDX-License-Identifier: Apache-2.0 */
/* The program points at which the bound's cuts are made. */
#ifndef REMAT_PROGRAM_POINT_H
#define REMAT_PROGRAM_POINT_H

#include "closure.h"

/* Kernels whose program points are worth a cut: all of the loss, and the named ones of the head's
 * and the last layer's backward pass. */
struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model);

#endif
