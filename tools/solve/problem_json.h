/* SPDX-License-Identifier: Apache-2.0 */
/* Reads remat-problem/1 files. */
#ifndef REMAT_TOOLS_PROBLEM_JSON_H
#define REMAT_TOOLS_PROBLEM_JSON_H

#include "base.h"

#include <remat/solve.h>

/* The largest problem in compact JSON takes about as much. */
#define PROBLEM_JSON_BYTES_MAX (1 << 28)

/* `path` may name a pipe; "-" is standard input. REMAT_ERROR_IO when the file cannot be read,
 * REMAT_ERROR_INVALID when it is not a problem or too large; the message names the file, the node
 * and the value. Everything lives in the arena. */
remat_status problem_json_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                               remat_problem_spec *out);

/* After REMAT_ERROR_INVALID: the same error, with the name of the file before its message. */
remat_status problem_json_fail(remat_context *ctx, struct remat_arena *arena, const char *path);

#endif
