/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --curve. */
#ifndef REMAT_TOOLS_COMPILE_CURVE_FILE_H
#define REMAT_TOOLS_COMPILE_CURVE_FILE_H

#include "compile.h"
#include "curve.h"
#include "files.h"

/* REMAT_ERROR_USAGE unless the path ends in .csv, .json or .svg. */
remat_status curve_file_check(remat_context *ctx, const char *path);

/* In the form that the path's ending names; times in nanoseconds. `picture`: of .svg. */
remat_status curve_file_write(struct remat_arena *arena, struct remat_outputs *outputs,
                              const char *path, const struct remat_front *front,
                              const struct curve_picture *picture);

/* Title and device; `model` has the symbols, with the values that the curve is for. */
remat_status curve_picture_name(struct remat_arena *arena, const struct remat_graph *model,
                                const struct remat_compile_settings *settings,
                                struct curve_picture *picture);

/* Policies that the curve is compared with: settings that people use in Megatron-LM, torchtune and
 * torchtitan, as far as the graph has their ops. */
remat_status curve_picture_policies(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph, struct remat_policies *out);

/* Marks: of these policies, which the front has priced, those that no other one of the same
 * system is as small and as fast as. */
remat_status curve_picture_mark(struct remat_arena *arena, const struct remat_front *front,
                                struct curve_picture *picture);

#endif
