/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: from the graph as written to the graphs of segments. */
#ifndef REMAT_PREPARE_H
#define REMAT_PREPARE_H

#include "compile_settings.h"
#include "step.h"

struct remat_prepared {
    struct remat_step step;
    uint64_t numerics_hash; /* of the decided segment's entry point, before any decision */
};

enum remat_purpose { REMAT_FOR_PLAN, REMAT_FOR_CURVE, REMAT_FOR_BOUND };

/* Runs the passes, and reports graphs and times as `settings` ask. The step lies in `arena`; its
 * graphs are verified and point into `input`. Only a plan has numerics_hash. A bound needs no
 * evaluation beside the step. */
remat_status remat_prepare(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *input,
                           const struct remat_compile_settings *settings,
                           enum remat_purpose purpose, struct remat_prepared *out);

/* The names that after_pass is called with, in order; NULL after the last. */
const char *remat_pass_name(size_t index);

#endif
