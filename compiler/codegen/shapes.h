/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of pointwise kernels, of teams and of blocks as text. */
#ifndef REMAT_SHAPES_H
#define REMAT_SHAPES_H

#include "source.h"

/* Each writes the body of a kernel. */
void cuda_write_pointwise(struct cuda_source *s);

void cuda_write_team(struct cuda_source *s);

void cuda_write_block(struct cuda_source *s);

#endif
