/* SPDX-License-Identifier: Apache-2.0 */
/* A hash index of items that the caller numbers. It grows in an arena; {0} is empty.
 *
 *     uint32_t item;
 *     for (size_t at = 0; (item = remat_index_find(&index, hash, &at)) != UINT32_MAX;)
 *         if (is_equal(item, key))                    // other items may have the same hash
 *             return item;
 *     remat_index_add(arena, &index, hash, next_item); */
#ifndef REMAT_INDEX_H
#define REMAT_INDEX_H

#include "unwind.h"

#include <assert.h>

struct remat_index {
    struct remat_index_slot { /* linear probing; item + 1, 0: free */
        uint32_t hash, item;
    } * slots;
    size_t count, capacity; /* a power of two, at least 2 count */
};

/* The next item with that hash from place *at on; advances *at past it. UINT32_MAX: no more. */
static inline uint32_t remat_index_find(const struct remat_index *index, uint64_t hash, size_t *at)
{
    uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    while (index->capacity) {
        const struct remat_index_slot *slot =
            &index->slots[(folded + (*at)++) & (index->capacity - 1)];
        if (slot->item == 0)
            break;
        if (slot->hash == folded)
            return slot->item - 1;
    }
    return UINT32_MAX;
}

static inline void remat_index_put(struct remat_index *index, struct remat_index_slot slot)
{
    size_t at = slot.hash;
    while (index->slots[at & (index->capacity - 1)].item)
        at++;
    index->slots[at & (index->capacity - 1)] = slot;
    index->count++;
}

static inline void remat_index_add(struct remat_arena *arena, struct remat_index *index,
                                   uint64_t hash, uint32_t item)
{
    assert(item != UINT32_MAX);
    if (2 * index->count >= index->capacity) {
        struct remat_index old = *index;
        *index = (struct remat_index){.capacity = old.capacity ? 2 * old.capacity : 64};
        REMAT_NEW(arena, index->slots, index->capacity);
        for (size_t i = 0; i < old.capacity; i++)
            if (old.slots[i].item)
                remat_index_put(index, old.slots[i]);
    }
    remat_index_put(index, (struct remat_index_slot){(uint32_t)(hash ^ hash >> 32), item + 1});
}

#endif
