/* SPDX-License-Identifier: Apache-2.0 */
/* A budget below which no schedule exists, whatever its order and however often it recomputes. */
#ifndef REMAT_FLOOR_H
#define REMAT_FLOOR_H

#include "local_search.h"
#include "problem.h"

struct remat_floor {
    uint64_t bytes;
    remat_problem_node node; /* whose run needs that much */
    bool exact;              /* a schedule with this peak exists (perhaps a very long one) */
};

/* `effort`: states looked at, in all. More effort never lowers the floor. */
struct remat_floor remat_floor_find(struct remat_arena *arena, const struct remat_problem *problem,
                                    uint64_t effort, struct remat_deadline *deadline);

#endif
