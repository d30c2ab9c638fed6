/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernels of a graph run in every plan, and on which streams: what a bound of a step with
 * overlapped transfers may know of schedules.
 *
 * Most kernels of computation run in the order of the graph: their place is fixed. Transfers that
 * wait for nothing, such as those that gather a parameter, may start early; overlapped ones, the
 * optimizer's kernels and what reads a delayed transfer may come late. */
#ifndef REMAT_PLACES_H
#define REMAT_PLACES_H

#include "settle.h"
#include "work.h"

struct remat_places {
    bool divided;     /* some kernel leaves computation free: there is more than one stream */
    uint8_t *streams; /* by kernel: those that it occupies, by bit */
    bool *fixed;      /* by kernel */
    /* By kernel: it begins when all kernels of a fixed place before `begin` have run, and is
     * complete when the one at `end`, of a fixed place, begins. A fixed place is its own begin and
     * end; count: there is no such end. */
    uint32_t *begin, *end;
};

/* Only `divided` and `streams` where it is not divided. In the arena. */
struct remat_places remat_places_find(struct remat_arena *arena,
                                      const struct remat_settled *settled);

/* The half in which the kernel runs, of the step as divided at the end of the kernel `point`, whose
 * place is fixed. */
enum remat_half remat_places_half(const struct remat_places *places, remat_kernel_id point,
                                  remat_kernel_id kernel);

#endif
