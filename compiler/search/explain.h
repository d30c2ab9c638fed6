/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations of a plan: the time of the other action for each value. */
#ifndef REMAT_EXPLAIN_H
#define REMAT_EXPLAIN_H

#include "lower.h"
#include "search.h"

struct remat_explanation {
    struct remat_alternative *alternatives; /* by value of the graph */
    bool exact;                             /* what they cost; else estimated */
};

/* Of a decision on the search's graph, all other values as decided. Costs of single values are
 * differences of exact step times in small graphs; in large ones they are estimated by the
 * costs of the planner's problem (closure.h). */
struct remat_explanation remat_explain(struct remat_search *search,
                                       const struct remat_decision *decision);

#endif
