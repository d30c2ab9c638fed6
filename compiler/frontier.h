/* SPDX-License-Identifier: Apache-2.0 */
/* Step time against memory: what the planner's paths and the manual policies offer. */
#ifndef REMAT_FRONTIER_H
#define REMAT_FRONTIER_H

#include "choose.h"
#include "compile.h"

/* Prices, with the solver per-op, decisions of each path, and of those near corners and of the
 * manual policies what could be better; samples of them in large graphs, all in
 * small ones. Keeps what nothing else is as small and as fast as. `plan`, which may be NULL, is one
 * more candidate. Times are those of the chooser's graph, bytes those of all segments; the points
 * lie in the chooser's arena. */
remat_status remat_choose_frontier(struct remat_chooser *chooser,
                                   const struct remat_frontier_point *plan,
                                   struct remat_frontier *out);

#endif
