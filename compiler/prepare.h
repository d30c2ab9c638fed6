/* SPDX-License-Identifier: Apache-2.0 */
/* The passes: from the graph as written to those that become segments. */
#ifndef REMAT_PREPARE_H
#define REMAT_PREPARE_H

#include "compile.h"

struct remat_prepared {
    bool trains;                       /* the graph computes gradients or updates */
    const struct remat_graph *decided; /* what decisions are about: a step, or one microbatch of it;
                                          the forward pass where nothing is trained */
    const struct remat_graph *update;  /* after the last microbatch; NULL: part of the step */
    const struct remat_graph *forward; /* of an evaluation; NULL where it is `decided` */
    const struct remat_graph *mean; /* after the last microbatch of an evaluation, over the ranks;
                                       NULL: there is none */
    uint64_t numerics_hash;         /* of the graph before any decision */
};

enum remat_purpose { REMAT_FOR_PLAN, REMAT_FOR_CURVE, REMAT_FOR_BOUND };

/* Hands out graphs and times as `settings` ask for it; the graphs lie in `arena`, are verified, and
 * point into `input`. Only a plan needs numerics_hash. For a bound a step needs no evaluation
 * beside it: no `forward`, `mean`. */
remat_status remat_prepare(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *input,
                           const struct remat_compile_settings *settings,
                           enum remat_purpose purpose, struct remat_prepared *out);

/* settings->microbatches, at least 1. */
uint32_t remat_microbatches(const struct remat_compile_settings *settings);

/* The names that after_pass is called with, in order; NULL after the last. */
const char *remat_pass_name(size_t index);

#endif
