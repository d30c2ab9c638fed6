/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying a program. */
#ifndef REMAT_PROGRAM_SIMULATE_H
#define REMAT_PROGRAM_SIMULATE_H

#include "program.h"

/* Replays every segment of a program that remat_program_verify accepts naively: no command reads a
 * buffer that does not hold the value it names (freed, overwritten or a newer version), buffers
 * live together do not overlap, live bytes and their peak are as claimed. Otherwise
 * REMAT_ERROR_INVALID, with a message as remat_program_verify's. Shares no code with the compiler.
 * O(size log buffers) for each segment. */
remat_status remat_program_simulate(remat_context *ctx, const struct remat_program *program);

#endif
