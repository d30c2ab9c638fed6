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

/* What people set in Megatron-LM, torchtune and torchtitan, as far as the graph has it: policies
 * that the curve is to be compared with. */
remat_status curve_picture_policies(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph, struct remat_policies *out);

/* Marks: of these policies, which the frontier has priced, those that no other one of the same
 * system is as small and as fast as. */
remat_status curve_picture_mark(struct remat_arena *arena, const struct remat_frontier *frontier,
                                struct curve_picture *picture);

#endif
