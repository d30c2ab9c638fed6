/* SPDX-License-Identifier: Apache-2.0 */
/* Local search over sequences of runs, order and recomputation together, for one budget. */
#ifndef REMAT_LOCAL_SEARCH_H
#define REMAT_LOCAL_SEARCH_H

#include "deadline.h"
#include "problem.h"

/* `events` for graphs like the published instances, whose moves change up to 40. */
enum { REMAT_SEARCH_EVENTS = 64 };

struct remat_search_options {
    uint64_t budget; /* bytes */
    uint64_t moves;  /* tried in all; nothing else ends the search but the deadline */
    uint32_t events; /* runs and reads that a move may change on average, more count as moves; 0:
                        any number */
    uint64_t seed;
    double hot, cold; /* temperatures at the first and last move, relative to the total time */
    double pressure;  /* what a peak of twice the budget costs, relative to the total time */
    struct remat_deadline *deadline;
};

/* Improves `start` (valid, any peak). The result is never worse: within the budget and not slower,
 * or, when nothing within the budget was met, not higher in peak. Same input, same result. */
struct remat_sequence remat_search(struct remat_arena *arena, const struct remat_problem *problem,
                                   const struct remat_sequence *start,
                                   const struct remat_search_options *options);

#endif
