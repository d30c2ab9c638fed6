/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --curve. */
#ifndef REMAT_TOOLS_COMPILE_CURVE_FILE_H
#define REMAT_TOOLS_COMPILE_CURVE_FILE_H

#include "files.h"

#include <remat/compile.h>

struct remat_arena; /* base.h */

/* REMAT_ERROR_USAGE unless the path ends in .csv, .json or .svg. */
remat_status curve_file_check(remat_context *ctx, const char *path);

/* In the form that the path's ending names; times in nanoseconds. */
remat_status curve_file_write(struct remat_arena *arena, struct remat_outputs *outputs,
                              const char *path, const remat_trade *trade);

#endif
