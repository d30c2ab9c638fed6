/* SPDX-License-Identifier: Apache-2.0 */
/* What the picture of --curve shows beside the curve. */
#ifndef REMAT_TOOLS_COMPILE_CURVE_PICTURE_H
#define REMAT_TOOLS_COMPILE_CURVE_PICTURE_H

#include "compile.h"
#include "curve_svg.h"

/* Title and device; `model` has the symbols, with the values that the curve is for. */
remat_status curve_picture_name(struct remat_arena *arena, const struct remat_graph *model,
                                const struct remat_compile_settings *settings,
                                struct curve_picture *picture);

/* Marks: settings of Megatron-LM, torchtune and torchtitan, without those that another one of the
 * same system is as small and as fast as. Each is a plan to be made; none are made of a curve that
 * was cut short, and no more when settings->is_over says so. */
remat_status curve_picture_mark(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph,
                                const struct remat_compile_settings *settings,
                                const struct remat_frontier *frontier,
                                struct curve_picture *picture);

#endif
