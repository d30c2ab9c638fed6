/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: kernels and commands. */
#ifndef REMAT_VERIFY_COMMAND_H
#define REMAT_VERIFY_COMMAND_H

#include "verify.h"

/* Every kernel by itself; fills verifier->uses. */
remat_status remat_verify_kernels(struct remat_verifier *verifier);
/* Command `index`: ranges, operands against values and buffers, kernel against operands. The tables
 * of buffers, values and kernels are verified already. */
remat_status remat_verify_command(struct remat_verifier *verifier, uint32_t index);
/* Operand k as the random state of `random` and of attention's dropout. */
remat_status remat_verify_random_state(struct remat_verifier *verifier, uint32_t index, uint32_t k);
/* Product of all lengths of its index space but the last. */
uint64_t remat_command_rows(const struct remat_command *c);
/* Whether distinct indices along axes [begin, end) are distinct elements: each stride, in ascending
 * order, steps over everything that the smaller ones reach. */
bool remat_view_injective(const struct remat_operand *operand, const int64_t *dims, uint32_t begin,
                          uint32_t end);

#endif
