/* SPDX-License-Identifier: Apache-2.0 */
/* What a command moves and computes, from the plan alone: operands element by element, instructions
 * one by one, built-in kernels by the formulas of builtin_kernels.def. Shares no code with price.c.
 */
#ifndef TESTS_UNIT_SEARCH_AUDIT_H
#define TESTS_UNIT_SEARCH_AUDIT_H

#include "program.h"

struct audit {
    uint64_t flops, moved_bytes;
};

/* False where the kernel is none that it knows, where operands of one value have elements of two
 * sizes, or where memory is short. */
bool audit_command(const struct remat_program *program, const struct remat_command *command,
                   struct audit *out);

#endif
