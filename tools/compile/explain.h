/* SPDX-License-Identifier: Apache-2.0 */
/* --explain: on standard output, in place of a report, what remat-dump --why says of the plan. */
#ifndef REMAT_TOOLS_COMPILE_EXPLAIN_H
#define REMAT_TOOLS_COMPILE_EXPLAIN_H

#include "cli.h"
#include "program.h"

/* REMAT_ERROR_USAGE: something else is to be printed there. */
remat_status explain_check(remat_context *ctx, const struct cli_arguments *args);

/* Appends it, as text or JSON. `smallest_bytes`: the budget that the plan needs, where none fits
 * the one given; else 0. REMAT_ERROR_USAGE: a glob matches no value that is decided about. */
remat_status explain(remat_context *ctx, struct remat_arena *arena,
                     const struct cli_arguments *args, const struct remat_program *program,
                     uint64_t smallest_bytes, struct remat_text *out);

/* Prints what was appended, with control characters shown. */
void explain_print(const struct remat_text *text);

/* After an error that leaves no plan: has a line after its message say so. */
void explain_nothing(const struct cli_arguments *args);

#endif
