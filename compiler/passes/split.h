/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that cuts a graph with microbatches into segments. */
#ifndef REMAT_SPLIT_H
#define REMAT_SPLIT_H

#include "passes.h"

/* A training graph in microbatches as two: what every microbatch does, and the update after the
 * last one, which reads the accumulators: the nodes of phase OPTIMIZER and what else they need. */
struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                bool update);

#endif
