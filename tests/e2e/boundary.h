/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan stores from the forward to the backward pass. */
#ifndef TESTS_E2E_BOUNDARY_H
#define TESTS_E2E_BOUNDARY_H

#include "harness.h"

/* The first command of the backward pass; commands of its segment before it are the forward pass,
 * which is checked. */
uint32_t boundary_find(const struct remat_program *program);
const struct remat_segment *boundary_segment(const struct remat_program *program);

/* By buffer: the value that it holds from before the boundary until after it; REMAT_NONE of others
 * and of persistent ones. */
uint32_t *boundary_values(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_program *program);

#endif
