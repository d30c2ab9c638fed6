/* SPDX-License-Identifier: Apache-2.0 */
/* The front of --curve. */
#ifndef REMAT_FRONT_H
#define REMAT_FRONT_H

#include "search.h"

/* Step time against memory: what the planner and the manual policies offer. Keeps what nothing else
 * is as small and as fast as; in large graphs points lie some way apart. The points of
 * `frontier` are among it. Times are of a step, bytes are live peaks of all segments; the points
 * lie in the search's arena. */
remat_status remat_search_front(struct remat_search *search, struct remat_frontier *frontier);

#endif
