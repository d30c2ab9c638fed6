/* SPDX-License-Identifier: Apache-2.0 */
/* Breadth first from the starts, an item at a time; what has been seen is indexed by hash. */
#include "path.h"

#include "decision.h"
#include "index.h"

static uint8_t *actions_of(const struct remat_neighbours *n, uint32_t decision)
{
    return n->actions + (size_t)decision * n->item_count;
}

/* Accepts the decision in the place after the last one, unless it is a duplicate. */
static void accept(struct remat_arena *arena, struct remat_neighbours *n, struct remat_index *seen)
{
    const uint8_t *last = actions_of(n, n->count);
    uint64_t hash = remat_hash(last, n->item_count, 0);
    uint32_t other;
    for (size_t at = 0; (other = remat_index_find(seen, hash, &at)) != UINT32_MAX;)
        if (memcmp(actions_of(n, other), last, n->item_count) == 0)
            return;
    remat_index_add(arena, seen, hash, n->count++);
}

struct remat_neighbours remat_neighbours_find(struct remat_arena *arena, uint32_t item_count,
                                              const uint32_t *actions, const uint8_t *starts,
                                              uint32_t start_count, uint32_t limit)
{
    struct remat_neighbours out = {.item_count = item_count};
    struct remat_index seen = {0};
    uint64_t others = 0; /* that differ in one item */
    for (uint32_t i = 0; i < item_count; i++)
        others += (uint64_t)__builtin_popcount(actions[i]) - 1;
    bool expands = start_count * (1 + others) <= limit;
    uint32_t most = expands ? limit : start_count;
    REMAT_NEW(arena, out.actions, (size_t)(most + 1) * item_count);
    for (uint32_t s = 0; s < start_count; s++) {
        memcpy(actions_of(&out, out.count), starts + (size_t)s * item_count, item_count);
        accept(arena, &out, &seen);
    }
    for (uint32_t d = 0; expands && d < out.count; d++)
        for (uint32_t i = 0; i < item_count; i++)
            for (uint32_t left = actions[i]; left && out.count < most; left &= left - 1) {
                uint8_t *next = actions_of(&out, out.count);
                memcpy(next, actions_of(&out, d), item_count);
                next[i] = (uint8_t)__builtin_ctz(left);
                accept(arena, &out, &seen);
            }
    return out;
}
