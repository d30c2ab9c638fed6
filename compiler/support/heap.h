/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of items of any type. REMAT_HEAP(name, type, comes_before); defines
 *
 *     struct name { type *items; size_t count, capacity; };     // {0}: empty; items[0]: the first
 *     void name_push(struct remat_arena *, struct name *, type);
 *     type name_take(struct name *, size_t place);              // removes the item; 0: the first
 *     void name_settle(struct name *, size_t place, type);      // sifts the item up or down from
 *                                                               // `place`, which is free
 *
 * with comes_before(type const *a, type const *b). The order of equal items depends only on the
 * calls so far. REMAT_HEAP_PLACED calls placed(type *, size_t place) for each item that moves, so
 * that callers can change or remove items inside the heap. */
#ifndef REMAT_HEAP_H
#define REMAT_HEAP_H

#include "unwind.h"

#include <assert.h>

#define REMAT_HEAP(name, type, comes_before)                                                       \
    REMAT_HEAP_PLACED(name, type, comes_before, REMAT_HEAP_NOT_PLACED)
#define REMAT_HEAP_NOT_PLACED(item, place) ((void)0)

#define REMAT_HEAP_PLACED(name, type, comes_before, placed)                                        \
    struct name {                                                                                  \
        type *items;                                                                               \
        size_t count, capacity;                                                                    \
    };                                                                                             \
    static inline void name##_put(struct name *heap, size_t place, type item)                      \
    {                                                                                              \
        heap->items[place] = item;                                                                 \
        placed(&heap->items[place], place);                                                        \
    }                                                                                              \
    static inline void name##_settle(struct name *heap, size_t place, type item)                   \
    {                                                                                              \
        type const *items = heap->items;                                                           \
        for (; place > 0 && comes_before(&item, &items[(place - 1) / 2]); place = (place - 1) / 2) \
            name##_put(heap, place, items[(place - 1) / 2]);                                       \
        for (size_t below; (below = 2 * place + 1) < heap->count; place = below) {                 \
            if (below + 1 < heap->count && comes_before(&items[below + 1], &items[below]))         \
                below++;                                                                           \
            if (!comes_before(&items[below], &item))                                               \
                break;                                                                             \
            name##_put(heap, place, items[below]);                                                 \
        }                                                                                          \
        name##_put(heap, place, item);                                                             \
    }                                                                                              \
    static inline void name##_push(struct remat_arena *arena, struct name *heap, type item)        \
    {                                                                                              \
        REMAT_PUSH(arena, heap, item);                                                             \
        name##_settle(heap, heap->count - 1, item);                                                \
    }                                                                                              \
    static inline type name##_take(struct name *heap, size_t place)                                \
    {                                                                                              \
        assert(place < heap->count);                                                               \
        type taken = heap->items[place];                                                           \
        type last = heap->items[--heap->count];                                                    \
        if (place < heap->count)                                                                   \
            name##_settle(heap, place, last);                                                      \
        return taken;                                                                              \
    }                                                                                              \
    struct name

#endif
