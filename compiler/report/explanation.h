/* SPDX-License-Identifier: Apache-2.0 */
/* The costs of saving and of recomputing values, as remat-dump --why says them. */
#ifndef REMAT_EXPLANATION_H
#define REMAT_EXPLANATION_H

#include "program.h"

struct remat_globs REMAT_LIST(const char *); /* of values; none: nothing is asked for */

/* `smallest_bytes`: the budget that it needs, if nothing fits and the program needs least; else 0.
 * Appends lines of printable text. REMAT_ERROR_USAGE: a glob matches no decision. */
remat_status remat_explanation_text(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_globs *globs,
                                    const struct remat_program *program, uint64_t smallest_bytes,
                                    struct remat_text *out);
remat_status remat_explanation_json(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_globs *globs,
                                    const struct remat_program *program, uint64_t smallest_bytes,
                                    struct remat_text *out);

#endif
