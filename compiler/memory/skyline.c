/* SPDX-License-Identifier: Apache-2.0 */
/* Min-offset-first packing without a conflict graph.
 *
 * Segments of equal height tile the time axis. Repeatedly take the lowest segment, leftmost of
 * equals, and put on it the first slot in order whose lifespan lies within it; when none does, the
 * segment rises to its lower neighbour. This equals placing the slot whose lowest feasible offset
 * above all placed slots that it overlaps is least. A slot adds at most two segments, so there are
 * O(N) steps; each searches a tree over the slots, which prunes well but has no good worst case.
 *
 * A subtree is pruned by its earliest end and its first rank. In one with short and long slots,
 * such as temporaries and activations that the backward pass reads, the former have the end and the
 * latter the rank, so short slots have leaves of their own. */
#include "instance.h"

#include <assert.h>

#define NONE UINT32_MAX

enum { SHORT_MAX = 16 }; /* positions of a short slot */

struct slot_node { /* over the slots not yet placed of a range; NONE when there are none */
    uint32_t min_end, min_rank;
};

struct remat_skyline {
    const struct remat_instance *in;
    struct slot_node *slots; /* segment tree: leaf slot_leaves + leaf_of[i] is slot i */
    uint32_t *leaf_of;       /* short slots come first */
    uint32_t *first_short;   /* positions + 1: the number of short slots with begin < position */
    uint32_t *lowest;        /* tournament tree: the start of the lowest segment of a range */
    uint32_t slot_leaves, position_leaves, short_count;
    /* A segment is known by its first position p: end[p], previous[p] (a start), height[p]. */
    uint32_t *end, *previous;
    uint64_t *height; /* height[positions] is a wall */
};

static uint32_t leaves_for(uint32_t count)
{
    uint32_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    return leaves;
}

static bool is_short(const struct remat_slot *slot)
{
    return slot->end - slot->begin <= SHORT_MAX;
}

static void place_leaves(struct remat_skyline *s, struct remat_arena *arena)
{
    const struct remat_instance *in = s->in;
    uint32_t next[2] = {0, 0}; /* leaf of a long, of a short slot */
    REMAT_NEW(arena, s->leaf_of, in->count);
    REMAT_NEW(arena, s->first_short, (size_t)in->positions + 1);
    for (uint32_t i = 0; i < in->count; i++)
        if (is_short(&in->slots[i]))
            s->first_short[in->slots[i].begin + 1]++;
    for (uint32_t p = 0; p < in->positions; p++)
        s->first_short[p + 1] += s->first_short[p];
    s->short_count = next[0] = s->first_short[in->positions];
    for (uint32_t i = 0; i < in->count; i++)
        s->leaf_of[i] = next[is_short(&in->slots[i])]++;
}

struct remat_skyline *remat_skyline_create(struct remat_arena *arena,
                                           const struct remat_instance *in)
{
    struct remat_skyline *s;
    REMAT_NEW(arena, s, 1);
    s->in = in;
    s->slot_leaves = leaves_for(in->count);
    s->position_leaves = leaves_for(in->positions);
    REMAT_NEW(arena, s->slots, 2 * (size_t)s->slot_leaves);
    place_leaves(s, arena);
    REMAT_NEW(arena, s->lowest, 2 * (size_t)s->position_leaves);
    REMAT_NEW(arena, s->end, (size_t)in->positions + 1);
    REMAT_NEW(arena, s->previous, (size_t)in->positions + 1);
    REMAT_NEW(arena, s->height, (size_t)in->positions + 1);
    return s;
}

static void join_slots(struct remat_skyline *s, uint32_t node)
{
    struct slot_node a = s->slots[2 * node], b = s->slots[2 * node + 1];
    s->slots[node].min_end = a.min_end < b.min_end ? a.min_end : b.min_end;
    s->slots[node].min_rank = a.min_rank < b.min_rank ? a.min_rank : b.min_rank;
}

static void reset(struct remat_skyline *s, const remat_slot_id *order)
{
    const struct remat_instance *in = s->in;
    for (uint32_t i = 0; i < s->slot_leaves; i++)
        s->slots[s->slot_leaves + i] = (struct slot_node){NONE, NONE};
    for (uint32_t rank = 0; rank < in->count; rank++)
        s->slots[s->slot_leaves + s->leaf_of[order[rank].i]] =
            (struct slot_node){in->slots[order[rank].i].end, rank};
    for (uint32_t node = s->slot_leaves - 1; node > 0; node--)
        join_slots(s, node);
    for (uint32_t node = 1; node < 2 * s->position_leaves; node++)
        s->lowest[node] = NONE;
    for (uint32_t node = s->position_leaves; node > 0; node /= 2)
        s->lowest[node] = 0; /* one segment */
    s->end[0] = in->positions;
    s->previous[0] = NONE;
    s->height[0] = 0;
    s->previous[in->positions] = 0;
    s->height[in->positions] = UINT64_MAX;
}

/* Tells the tournament that the segment at `start` is new, has moved or (present = false) is gone.
 */
static void touch(struct remat_skyline *s, uint32_t start, bool present)
{
    uint32_t node = s->position_leaves + start;
    for (s->lowest[node] = present ? start : NONE; node > 1; node /= 2) {
        uint32_t a = s->lowest[node & ~1u], b = s->lowest[node | 1u];
        bool right = a == NONE || (b != NONE && s->height[b] < s->height[a]);
        s->lowest[node / 2] = right ? b : a;
    }
}

static void absorb_next_if_level(struct remat_skyline *s, uint32_t start)
{
    uint32_t next = s->end[start];
    if (s->height[next] != s->height[start])
        return;
    s->end[start] = s->end[next];
    s->previous[s->end[next]] = start;
    touch(s, next, false);
}

/* The segment at `start` has a new height. */
static void level_with_neighbours(struct remat_skyline *s, uint32_t start)
{
    touch(s, start, true);
    absorb_next_if_level(s, start);
    if (s->previous[start] != NONE)
        absorb_next_if_level(s, s->previous[start]);
}

static void raise_to_neighbour(struct remat_skyline *s, uint32_t start)
{
    uint64_t left = s->previous[start] == NONE ? UINT64_MAX : s->height[s->previous[start]];
    uint64_t right = s->height[s->end[start]];
    s->height[start] = left < right ? left : right;
    level_with_neighbours(s, start);
}

/* Puts `slot` on the segment at `start`, which it may split into three. */
static void put(struct remat_skyline *s, uint32_t start, const struct remat_slot *slot)
{
    uint32_t end = s->end[start];
    uint64_t height = s->height[start];
    s->end[slot->begin] = slot->end;
    s->height[slot->begin] = height + slot->bytes;
    if (slot->begin > start) {
        s->end[start] = slot->begin;
        s->previous[slot->begin] = start;
    }
    if (slot->end < end) {
        s->end[slot->end] = end;
        s->previous[end] = slot->end;
        s->height[slot->end] = height;
        touch(s, slot->end, true);
    }
    s->previous[slot->end] = slot->begin;
    level_with_neighbours(s, slot->begin);
}

struct slot_search {
    uint32_t first, last; /* leaves of slots that begin within the segment */
    uint32_t end;         /* of the segment */
};

/* The least rank below `best` of a leaf in [first, last) of the search that ends by its end. */
static uint32_t find(const struct slot_node *slots, uint32_t node, uint32_t begin, uint32_t width,
                     const struct slot_search *search, uint32_t best)
{
    if (begin >= search->last || begin + width <= search->first ||
        slots[node].min_end > search->end || slots[node].min_rank >= best)
        return best;
    if (width == 1)
        return slots[node].min_rank;
    uint32_t half = width / 2;
    bool right = slots[2 * node + 1].min_rank < slots[2 * node].min_rank;
    for (int k = 0; k < 2; k++, right = !right)
        best = find(slots, 2 * node + right, begin + (right ? half : 0), half, search, best);
    return best;
}

/* Starts at the lowest node that covers all leaves of the search. */
static uint32_t find_among(const struct remat_skyline *s, struct slot_search search, uint32_t best)
{
    uint32_t level = 0;
    if (search.first == search.last)
        return best;
    while (search.first >> level != (search.last - 1) >> level)
        level++;
    uint32_t begin = search.first >> level << level;
    return find(s->slots, (s->slot_leaves + begin) >> level, begin, 1u << level, &search, best);
}

/* The least rank of a slot that lies within the segment. */
static uint32_t find_slot(const struct remat_skyline *s, uint32_t start)
{
    uint32_t end = s->end[start], first = s->first_short[start], last = s->first_short[end];
    uint32_t best = find_among(s, (struct slot_search){first, last, end}, NONE);
    first = s->in->first_at[start] - first + s->short_count;
    last = s->in->first_at[end] - last + s->short_count;
    return find_among(s, (struct slot_search){first, last, end}, best);
}

uint64_t remat_skyline_pack(struct remat_skyline *s, const remat_slot_id *order,
                            uint64_t bound_bytes, uint64_t *offsets)
{
    assert(bound_bytes > 0);
    const struct remat_instance *in = s->in;
    uint64_t top = 0;
    reset(s, order);
    for (uint32_t placed = 0; placed < in->count;) {
        uint32_t start = s->lowest[1];
        uint32_t rank = find_slot(s, start);
        if (rank == NONE) {
            raise_to_neighbour(s, start);
            continue;
        }
        remat_slot_id slot = order[rank];
        uint32_t node = s->slot_leaves + s->leaf_of[slot.i];
        offsets[slot.i] = s->height[start];
        put(s, start, &in->slots[slot.i]);
        s->slots[node] = (struct slot_node){NONE, NONE};
        while (node /= 2)
            join_slots(s, node);
        if (offsets[slot.i] + in->slots[slot.i].bytes > top)
            top = offsets[slot.i] + in->slots[slot.i].bytes;
        if (top >= bound_bytes)
            return UINT64_MAX;
        placed++;
    }
    return top;
}
