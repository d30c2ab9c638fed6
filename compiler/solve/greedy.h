/* SPDX-License-Identifier: Apache-2.0 */
/* Plans made by saving greedily. */
#ifndef REMAT_GREEDY_H
#define REMAT_GREEDY_H

#include "local_search.h"
#include "problem.h"

/* The worth of keeping a value: cost^a / bytes^b / distance^c, where cost is the time to bring it
 * back and distance how far its next use in the given order is. */
struct remat_eviction {
    double cost, bytes, distance;
    const bool *keep; /* values to keep before all others; may be NULL */
    bool deep_first;  /* of several missing inputs, make the one with the most missing ancestors
                         first */
};

enum { REMAT_EVICTIONS = 8 };
extern const struct remat_eviction remat_evictions[REMAT_EVICTIONS]; /* what is worth trying */

/* Limits of all greedy plans together, counted down: looks at a value or an input, before the
 * deadline and after it. */
struct remat_looks {
    uint64_t left, late;
};

/* As many as five plans may take, each of which has a limit of its own. */
struct remat_looks remat_construct_looks(const struct remat_problem *problem);

/* The given order in at most `budget` bytes: evicts the least worthy value when room is needed, and
 * recomputes missing inputs. Empty when it gets stuck or takes too many looks. */
struct remat_sequence remat_construct_greedy(struct remat_arena *arena,
                                             const struct remat_problem *problem, uint64_t budget,
                                             const struct remat_eviction *eviction,
                                             struct remat_deadline *deadline,
                                             struct remat_looks *looks);

#endif
