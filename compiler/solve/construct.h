/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences from a choice of what to keep. */
#ifndef REMAT_CONSTRUCT_H
#define REMAT_CONSTRUCT_H

#include "local_search.h"
#include "problem.h"

/* The given order; after the run of `node` everything made before is gone but what `more` keeps
 * (values from `border` on) or `less` (values before it), and comes back just before its first use.
 */
struct remat_sequence remat_construct_cut(struct remat_arena *arena,
                                          const struct remat_problem *problem,
                                          remat_problem_node node, const bool *more,
                                          const bool *less, uint32_t border);

#endif
