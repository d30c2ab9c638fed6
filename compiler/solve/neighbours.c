/* SPDX-License-Identifier: Apache-2.0 */
/* Breadth first from the starts, an item at a time; a table of what has been seen, by hash. */
#include "neighbours.h"

#include "decision.h"

static const uint8_t choices[] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE};
enum { CHOICES = sizeof choices };

struct seen {
    uint32_t *slots; /* a decision's number + 1; 0: empty */
    uint32_t mask;
};

static const uint8_t *actions_of(const struct remat_neighbours *n, uint32_t decision)
{
    return n->actions + (size_t)decision * n->item_count;
}

static uint32_t hash_of(const uint8_t *actions, uint32_t count)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ actions[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* Takes the decision that lies behind the last one, unless it is there already. */
static void take(struct remat_neighbours *n, struct seen *seen)
{
    const uint8_t *actions = actions_of(n, n->count);
    uint32_t slot = hash_of(actions, n->item_count) & seen->mask;
    for (; seen->slots[slot]; slot = (slot + 1) & seen->mask)
        if (memcmp(actions_of(n, seen->slots[slot] - 1), actions, n->item_count) == 0)
            return;
    seen->slots[slot] = ++n->count;
}

static void expand(struct remat_neighbours *n, struct seen *seen, uint32_t from, uint32_t limit)
{
    for (uint32_t i = 0; i < n->item_count; i++)
        for (uint32_t a = 0; a < CHOICES && n->count < limit; a++) {
            uint8_t *next = n->actions + (size_t)n->count * n->item_count;
            memcpy(next, actions_of(n, from), n->item_count);
            next[i] = choices[a];
            take(n, seen);
        }
}

struct remat_neighbours remat_neighbours_find(struct remat_arena *arena, uint32_t item_count,
                                              const uint8_t *starts, uint32_t start_count,
                                              uint32_t limit)
{
    struct remat_neighbours out = {.item_count = item_count};
    struct seen seen = {0};
    uint64_t nearest = (uint64_t)start_count * (1 + (CHOICES - 1) * (uint64_t)item_count);
    uint32_t most = limit > start_count ? limit : start_count, slots = 2;
    bool expands = nearest <= limit;
    if (!expands)
        most = start_count;
    while (slots / 2 < most)
        slots *= 2;
    seen.mask = slots - 1;
    REMAT_NEW(arena, seen.slots, slots);
    REMAT_NEW(arena, out.actions, (size_t)(most + 1) * item_count);
    for (uint32_t s = 0; s < start_count; s++) {
        memcpy(out.actions + (size_t)out.count * item_count, starts + (size_t)s * item_count,
               item_count);
        take(&out, &seen);
    }
    for (uint32_t d = 0; expands && d < out.count && out.count < most; d++)
        expand(&out, &seen, d, most);
    return out;
}
