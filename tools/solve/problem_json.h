/* Reads remat-problem/1 files. */
#ifndef REMAT_TOOLS_PROBLEM_JSON_H
#define REMAT_TOOLS_PROBLEM_JSON_H

#include "problem.h"

/* REMAT_ERROR_IO when the file cannot be read, REMAT_ERROR_INVALID when it is not a problem; the
 * message names the file, the node and the value. Everything lives in the arena. */
remat_status problem_json_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                               struct remat_problem *out);

#endif
