/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions near given ones, that depend on no budget: all that differ in one item, in two and so
 * on, until there are so many; of few items that is every decision that recomputes none twice. */
#ifndef REMAT_NEIGHBOURS_H
#define REMAT_NEIGHBOURS_H

#include "unwind.h"

struct remat_neighbours {
    uint32_t item_count, count;
    uint8_t *actions; /* by decision, then by item: enum remat_action */
};

/* `parts`: items that may be kept in part. `starts`: `start_count` decisions, as in `actions`,
 * which come first, each once. Others follow by the number of items that are different, `limit`
 * decisions in all; none where not even all that differ in one item are within the limit. In the
 * arena. */
struct remat_neighbours remat_neighbours_find(struct remat_arena *arena, uint32_t item_count,
                                              const bool *parts, const uint8_t *starts,
                                              uint32_t start_count, uint32_t limit);

#endif
