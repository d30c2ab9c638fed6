/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of every schedule within a budget, whatever its order and however often
 * it recomputes. The proof is in docs/problems.md. */
#ifndef REMAT_BOUND_H
#define REMAT_BOUND_H

#include "local_search.h"
#include "problem.h"

enum { REMAT_BOUND_NODES = 8 };

struct remat_bound {
    uint64_t ticks; /* at least this many beyond the sum over all nodes */
    double time;    /* sum of all times plus that: at most the time of any schedule that fits */
    remat_problem_node best[REMAT_BOUND_NODES]; /* nodes whose first runs give the largest bounds,
                                                   largest first; none: the trivial bound */
    uint32_t best_count;
    /* By value, in the arena: whether it is live at that run in the two cheapest cuts beside the
     * budget, one above and one within it. A search starts from them; NULL for the trivial bound
     * and after the deadline. */
    bool *keep_more, *keep_less;
};

/* The sum of all times plus `ticks`, rounded so that it stays a bound. */
double remat_bound_from_ticks(const struct remat_problem *problem, uint64_t ticks);

/* `cuts_max`: how many nodes are tried, at least 1. Deadline: the best so far. */
struct remat_bound remat_bound_time(struct remat_arena *arena, const struct remat_problem *problem,
                                    uint64_t budget, uint32_t cuts_max,
                                    struct remat_deadline *deadline);

/* The same at one node, by branch and bound on what is kept there: at least so many ticks beyond
 * the sum of least times. Ends at `enough` ticks, or after `leaves_max` cases. */
uint64_t remat_bound_branch(struct remat_arena *arena, const struct remat_problem *problem,
                            uint64_t budget, remat_problem_node node, uint64_t enough,
                            uint32_t leaves_max, struct remat_deadline *deadline);

#endif
