/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of a sequence: the independent judge of everything that the solver claims. It shares
 * no code with the search, and plans are accepted and printed with its figures only. */
#ifndef REMAT_SIMULATE_H
#define REMAT_SIMULATE_H

#include "problem.h"

struct remat_simulation {
    double time;
    uint64_t peak;
};

/* The faster of two that fit is better, one that fits than one that does not, and of those the one
 * with the lower peak. */
static inline bool remat_is_better(const struct remat_simulation *a,
                                   const struct remat_simulation *b, uint64_t budget)
{
    bool fits = a->peak <= budget;
    if (fits != (b->peak <= budget))
        return fits;
    return fits ? a->time < b->time : a->peak < b->peak;
}

/* Fails with REMAT_ERROR_INVALID, naming position and node, when an entry is no node, an input is
 * not live at a run, or a node never runs. */
remat_status remat_simulate(remat_context *ctx, const struct remat_problem *problem,
                            const remat_way_id *sequence, size_t length,
                            struct remat_simulation *out);

#endif
