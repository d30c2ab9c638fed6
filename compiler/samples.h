/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the planner's paths. Paths do not get smaller all the way, so bisection alone passes
 * some decisions by that fit. */
#ifndef REMAT_SAMPLES_H
#define REMAT_SAMPLES_H

#include "rung.h"

/* Appends samples of the paths that are of use to `out`: every k-th decision, of small graphs every
 * one. Those that cannot be faster than *best are left out; best: NULL where there is none. */
remat_status remat_samples_list(struct remat_chooser *chooser, struct remat_arena *scratch,
                                const struct remat_planner *planner, const struct remat_rung *best,
                                struct remat_rungs *out);

/* Looks by bisection for what is faster than *best between a sample that fits and the one before
 * it: of `compared`, and on each path the first sample that cannot be faster itself. */
remat_status remat_samples_refine(struct remat_chooser *chooser, struct remat_arena *scratch,
                                  const struct remat_planner *planner,
                                  const struct remat_rungs *compared, struct remat_rung *best);

#endif
