/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep over time keeps the live slots in order of their offsets. They do not overlap, so one
 * that begins can overlap its neighbours only, or none. Live bytes are largest where something
 * begins. */
#include "pack.h"
#include "unwind.h"

#include <stdlib.h>

enum { LEVELS = 6, NONE = UINT32_MAX }; /* 64 ^ 6 > 2 ^ 32 */

struct keyed {
    uint64_t key;
    remat_slot_id slot;
};

struct sweep {
    const struct remat_slot *slots;
    const struct remat_packing *packing;
    uint32_t count;              /* slots that need memory */
    struct keyed *begins, *ends; /* in order of time */
    struct keyed *offsets;       /* in order of offsets: ranks */
    uint32_t *rank;              /* by slot */
    uint64_t *live[LEVELS]; /* ranks: a bit set; each level has a bit for a word of the one below */
};

static bool needs_memory(const struct remat_slot *slot)
{
    return slot->begin < slot->end && slot->bytes > 0;
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes % REMAT_ALIGNMENT ? bytes - bytes % REMAT_ALIGNMENT + REMAT_ALIGNMENT : bytes;
}

static remat_status check_slot(remat_context *ctx, const struct remat_slot *slots, remat_slot_id i,
                               const struct remat_packing *packing)
{
    uint64_t offset = packing->offsets[i.i], bytes = rounded(slots[i.i].bytes);
    if (offset % REMAT_ALIGNMENT)
        return remat_error(ctx, REMAT_ERROR_INTERNAL, "memory slot %u: offset %llu not aligned",
                           i.i, (unsigned long long)offset);
    if (offset > packing->arena_bytes || bytes > packing->arena_bytes - offset)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "memory slot %u: %llu bytes at %llu exceed the arena of %llu bytes", i.i,
                           (unsigned long long)bytes, (unsigned long long)offset,
                           (unsigned long long)packing->arena_bytes);
    return REMAT_OK;
}

static remat_status check_pair(remat_context *ctx, const struct remat_slot *slots, remat_slot_id i,
                               remat_slot_id j, const uint64_t *offsets)
{
    const struct remat_slot *a = &slots[i.i], *b = &slots[j.i];
    if (a->end <= b->begin || b->end <= a->begin)
        return REMAT_OK;
    if (offsets[i.i] + a->bytes <= offsets[j.i] || offsets[j.i] + b->bytes <= offsets[i.i])
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_INTERNAL,
                       "memory slots %u and %u overlap: [%u, %u) with %llu bytes at %llu, "
                       "[%u, %u) with %llu bytes at %llu",
                       i.i, j.i, a->begin, a->end, (unsigned long long)a->bytes,
                       (unsigned long long)offsets[i.i], b->begin, b->end,
                       (unsigned long long)b->bytes, (unsigned long long)offsets[j.i]);
}

static int compare_keyed(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->slot.i > b->slot.i) - (a->slot.i < b->slot.i);
}

static void sweep_create(struct remat_arena *arena, const struct remat_slot *slots, uint32_t count,
                         const struct remat_packing *packing, struct sweep *s)
{
    uint64_t words = count;
    *s = (struct sweep){.slots = slots, .packing = packing};
    REMAT_NEW(arena, s->begins, count);
    REMAT_NEW(arena, s->ends, count);
    REMAT_NEW(arena, s->offsets, count);
    REMAT_NEW(arena, s->rank, count);
    for (remat_slot_id i = {0}; i.i < count; i.i++) {
        if (!needs_memory(&slots[i.i]))
            continue;
        s->begins[s->count] = (struct keyed){slots[i.i].begin, i};
        s->ends[s->count] = (struct keyed){slots[i.i].end, i};
        s->offsets[s->count++] = (struct keyed){packing->offsets[i.i], i};
    }
    qsort(s->begins, s->count, sizeof *s->begins, compare_keyed);
    qsort(s->ends, s->count, sizeof *s->ends, compare_keyed);
    qsort(s->offsets, s->count, sizeof *s->offsets, compare_keyed);
    for (uint32_t r = 0; r < s->count; r++)
        s->rank[s->offsets[r].slot.i] = r;
    for (int level = 0; level < LEVELS; level++) {
        words = words / 64 + 1;
        REMAT_NEW(arena, s->live[level], words);
    }
}

static void insert(struct sweep *s, uint32_t rank)
{
    for (int level = 0; level < LEVELS; level++, rank /= 64)
        s->live[level][rank / 64] |= UINT64_C(1) << rank % 64;
}

static void erase(struct sweep *s, uint32_t rank)
{
    for (int level = 0; level < LEVELS; level++, rank /= 64) {
        s->live[level][rank / 64] &= ~(UINT64_C(1) << rank % 64);
        if (s->live[level][rank / 64])
            break;
    }
}

/* The nearest live rank after this one, or before it; NONE. */
static uint32_t neighbour(const struct sweep *s, uint32_t rank, bool after)
{
    for (int level = 0; level < LEVELS; level++, rank /= 64) {
        uint64_t bit = UINT64_C(1) << rank % 64, word = s->live[level][rank / 64];
        word &= after ? ~(bit | (bit - 1)) : bit - 1;
        if (!word)
            continue;
        rank = rank / 64 * 64;
        for (;; word = s->live[level][rank], rank *= 64) {
            rank += (uint32_t)(after ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
            if (level-- == 0)
                return rank;
        }
    }
    return NONE;
}

static remat_status begin(remat_context *ctx, struct sweep *s, remat_slot_id slot)
{
    for (int after = 0; after < 2; after++) {
        uint32_t rank = neighbour(s, s->rank[slot.i], after);
        if (rank == NONE)
            continue;
        remat_slot_id other = s->offsets[rank].slot;
        REMAT_CHECK(check_pair(ctx, s->slots, slot.i > other.i ? slot : other,
                               slot.i > other.i ? other : slot, s->packing->offsets));
    }
    insert(s, s->rank[slot.i]);
    return REMAT_OK;
}

static remat_status check_pairs(remat_context *ctx, struct sweep *s, uint64_t *peak_bytes)
{
    uint64_t live_bytes = 0;
    *peak_bytes = 0;
    for (uint32_t b = 0, e = 0; b < s->count; b++) {
        for (; s->ends[e].key <= s->begins[b].key; e++) {
            erase(s, s->rank[s->ends[e].slot.i]);
            live_bytes -= rounded(s->slots[s->ends[e].slot.i].bytes);
        }
        REMAT_CHECK(begin(ctx, s, s->begins[b].slot));
        live_bytes += rounded(s->slots[s->begins[b].slot.i].bytes);
        *peak_bytes = live_bytes > *peak_bytes ? live_bytes : *peak_bytes;
    }
    return REMAT_OK;
}

remat_status remat_pack_check(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                              const struct remat_packing *packing)
{
    remat_status st = REMAT_OK;
    struct sweep sweep;
    uint64_t peak_bytes;
    struct remat_arena *arena = remat_scratch_open(ctx);
    for (remat_slot_id i = {0}; i.i < count; i.i++)
        if (needs_memory(&slots[i.i]))
            REMAT_TRY(check_slot(ctx, slots, i, packing));
    sweep_create(arena, slots, count, packing, &sweep);
    REMAT_TRY(check_pairs(ctx, &sweep, &peak_bytes));
    if (packing->live_peak_bytes != peak_bytes)
        REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "live peak: %llu bytes claimed, %llu at most",
                   (unsigned long long)packing->live_peak_bytes, (unsigned long long)peak_bytes);
fail:
    remat_scratch_close(arena);
    return st;
}
