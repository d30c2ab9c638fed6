/* SPDX-License-Identifier: Apache-2.0 */
/* How a step is divided, among ranks and into microbatches, and which division is the fastest
 * within a budget: --ranks N, --microbatches auto. */
#ifndef REMAT_DIVISIONS_H
#define REMAT_DIVISIONS_H

#include "division.h"

struct remat_divisions {
    const struct remat_asked *asked;    /* as given */
    const char *bindings;               /* of the graph's symbols */
    struct remat_division_trial *items; /* planned ones first, the fastest one first of all */
    uint32_t count;                     /* 0: there is nothing to choose */
    uint32_t counts[REMAT_DIVISION_OUTCOMES];
    uint32_t ranks;
    int64_t batch; /* of all ranks; 0: the graph has none */
    bool meshes;   /* there is more to choose than the number of microbatches */
    double work;   /* of a step: tokens, or sequences */
    const char *unit;
    bool cut_short;
    const char *reasons; /* lines after the message that none is possible; NULL: none */
};

bool remat_divisions_planned(const struct remat_divisions *divisions); /* one at least */
/* Step of the slowest of the best; UINT64_MAX: there are not as many yet. */
uint64_t remat_divisions_time_to_beat(const struct remat_divisions *divisions);
/* The one with the lowest bound that is only bounded; count: there is none. */
uint32_t remat_divisions_find_open(const struct remat_divisions *divisions);
/* Whether the division is not possible for a reason that none before it has; and that reason,
 * without the name of the model. */
bool remat_divisions_has_new_reason(const struct remat_divisions *divisions, uint32_t division);
const char *remat_divisions_reason(const struct remat_divisions *divisions, uint32_t division);

/* division_search.c: finds the fastest division of those that the request leaves open, which
 * its settings and *out then have; where all is given they are as they were, but for the global
 * batch, which becomes a binding. With a mesh, `zero` or microbatches given the others are open.
 * REMAT_ERROR_USAGE: options that contradict each other; REMAT_ERROR_INFEASIBLE: no division fits,
 * which proves or tries all; REMAT_ERROR_CUT_SHORT: ended with none found. */
remat_status remat_divisions_choose(struct remat_request *request,
                                    struct remat_divisions *divisions, struct remat_asked *out);

#endif
