/* Local search over sequences of runs, order and recomputation together, for one budget. */
#ifndef REMAT_SEARCH_H
#define REMAT_SEARCH_H

#include "problem.h"

/* Asked now and then; true ends the search early. NULL: never. */
struct remat_deadline {
    bool (*expired)(void *user);
    void *user;
    bool hit; /* it was true at some time */
};
static inline bool remat_deadline_expired(struct remat_deadline *d)
{
    if (d && !d->hit && d->expired)
        d->hit = d->expired(d->user);
    return d && d->hit;
}

struct remat_search_options {
    uint64_t budget; /* bytes */
    uint64_t moves;  /* tried in all; the only thing that ends the search besides the deadline */
    uint64_t seed;
    double hot, cold; /* temperatures at the first and last move, relative to the total time */
    double pressure;  /* what a peak of twice the budget costs, relative to the total time */
    struct remat_deadline *deadline;
};

/* Improves `start` (valid, any peak). The result is never worse: within the budget and not slower,
 * or, when nothing within the budget was met, not higher in peak. Same input, same result. */
remat_status remat_search(struct remat_arena *arena, const struct remat_problem *problem,
                          const struct remat_sequence *start,
                          const struct remat_search_options *options, struct remat_sequence *out);

#endif
