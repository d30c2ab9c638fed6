/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's paths, searched for what fits some room; and what is left to say when nothing does.
 */
#ifndef REMAT_PATHS_H
#define REMAT_PATHS_H

#include "rung.h"

/* The first decision of the path that fits limit_bytes, as bisection finds it; *found stays as it
 * is where there is none. Any limit from *room_bytes up to this one has the same outcome;
 * UINT64_MAX: nothing was found. */
remat_status remat_paths_search(struct remat_chooser *chooser, struct remat_arena *scratch,
                                const struct remat_planner *planner, uint32_t path,
                                uint64_t limit_bytes, struct remat_rung *best, bool *found,
                                uint64_t *room_bytes);

/* The first decision of [low, high) of the path that fits limit_bytes, as bisection finds it; *any:
 * there is one. *room_bytes grows to the largest arena that was seen to fit. */
remat_status remat_paths_bisect(struct remat_chooser *chooser, struct remat_arena *scratch,
                                const struct remat_planner *planner, uint32_t path, uint32_t low,
                                uint32_t high, uint64_t limit_bytes, struct remat_rung *best,
                                bool *any, uint64_t *room_bytes);

/* How many decisions of the path are of use, nested ones included: behind them nothing is smaller.
 * Does not look at the clock: two evaluations for each halving of the nested ones. */
remat_status remat_paths_end(struct remat_chooser *chooser, struct remat_arena *scratch,
                             const struct remat_planner *planner, uint32_t path, uint32_t *out);

/* The fastest that all paths lead to within the chooser's limit. */
remat_status remat_paths_best(struct remat_chooser *chooser, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct remat_rung *best,
                              bool *found);

/* When the search was ended with nothing found: without a look at the clock, the first that fits of
 * the ends of paths, of the rungs, the slowest first, and of what the first path nests.
 * REMAT_ERROR_CUT_SHORT: none does; REMAT_ERROR_INFEASIBLE: and it is proven that nothing can.
 * paths: planner's ones count. */
remat_status remat_paths_rescue(struct remat_chooser *chooser, struct remat_arena *scratch,
                                const struct remat_planner *planner, bool paths,
                                struct remat_rungs *rungs, struct remat_rung *best);

/* REMAT_ERROR_INFEASIBLE: nothing fits. The message is about the smallest arena with which
 * something is found, on the paths, of `rungs` or of `near`. planner, near: NULL where policies
 * alone count. */
remat_status remat_refuse(struct remat_chooser *chooser, struct remat_arena *scratch,
                          struct remat_planner *planner, struct remat_rungs *rungs,
                          struct remat_rungs *near);

#endif
