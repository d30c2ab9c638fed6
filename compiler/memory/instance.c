/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting the slots, compressing time to the positions where something begins or ends, and traits,
 * by which packers order the slots. */
#include "instance.h"

#include <assert.h>
#include <stdlib.h>

static int compare_times(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static int compare_ranked(const void *left, const void *right)
{
    const struct remat_ranked *a = left, *b = right;
    for (int k = 0; k < 3; k++)
        if (a->value[k] != b->value[k])
            return a->value[k] > b->value[k] ? -1 : 1;
    return (a->slot.i > b->slot.i) - (a->slot.i < b->slot.i);
}

void remat_sort_ranked(struct remat_ranked *ranked, uint32_t count, remat_slot_id *order)
{
    qsort(ranked, count, sizeof *ranked, compare_ranked);
    for (uint32_t i = 0; i < count; i++)
        order[i] = ranked[i].slot;
}

static void sort_slots(struct remat_arena *arena, const struct remat_slot *slots, uint32_t count,
                       struct remat_instance *out)
{
    struct remat_ranked *ranked;
    uint64_t total_bytes = 0;
    REMAT_NEW(arena, ranked, count);
    for (remat_slot_id i = {0}; i.i < count; i.i++) {
        const struct remat_slot *s = &slots[i.i];
        assert(s->begin <= s->end && s->bytes <= REMAT_SLOT_BYTES_MAX);
        if (s->begin == s->end || s->bytes == 0)
            continue;
        uint64_t bytes = remat_aligned_bytes(s->bytes);
        assert(bytes <= REMAT_SLOT_BYTES_MAX - total_bytes);
        total_bytes += bytes;
        ranked[out->count++] = (struct remat_ranked){{UINT64_MAX - s->begin, s->end}, i};
    }
    REMAT_NEW(arena, out->slots, out->count);
    REMAT_NEW(arena, out->given, out->count);
    remat_sort_ranked(ranked, out->count, out->given);
    for (uint32_t i = 0; i < out->count; i++) {
        out->slots[i] = slots[out->given[i].i];
        out->slots[i].bytes = remat_aligned_bytes(out->slots[i].bytes);
    }
}

static uint32_t position_of(const uint32_t *times, uint32_t count, uint32_t time)
{
    const uint32_t *found = bsearch(&time, times, count, sizeof *times, compare_times);
    return (uint32_t)(found - times);
}

static void compress_time(struct remat_arena *arena, struct remat_instance *out)
{
    uint32_t *times, last = 0; /* of the distinct times */
    REMAT_NEW(arena, times, 2 * (size_t)out->count + 1);
    for (uint32_t i = 0; i < out->count; i++) {
        times[2 * (size_t)i] = out->slots[i].begin;
        times[2 * (size_t)i + 1] = out->slots[i].end;
    }
    qsort(times, 2 * (size_t)out->count, sizeof *times, compare_times);
    for (size_t t = 1; t < 2 * (size_t)out->count; t++)
        if (times[t] != times[last])
            times[++last] = times[t];
    out->positions = last;
    REMAT_NEW(arena, out->first_at, (size_t)last + 1);
    for (uint32_t i = 0; i < out->count; i++) {
        struct remat_slot *s = &out->slots[i];
        s->begin = position_of(times, last + 1, s->begin);
        s->end = position_of(times, last + 1, s->end);
        out->first_at[s->begin + 1]++;
    }
    for (uint32_t p = 0; p < last; p++)
        out->first_at[p + 1] += out->first_at[p];
}

/* A slot adds its bytes where it begins and takes them away where it ends, modulo 2^64. */
static void find_live(struct remat_arena *arena, struct remat_instance *out)
{
    REMAT_NEW(arena, out->live, (size_t)out->positions + 1);
    for (uint32_t i = 0; i < out->count; i++) {
        out->live[out->slots[i].begin] += out->slots[i].bytes;
        out->live[out->slots[i].end] -= out->slots[i].bytes;
    }
    for (uint32_t p = 0; p < out->positions; p++) {
        out->live[p] += p ? out->live[p - 1] : 0;
        if (out->live[p] > out->live_peak_bytes)
            out->live_peak_bytes = out->live[p];
    }
}

/* levels[k][p] is the maximum of live over [p, p + 2^k). */
static void range_maxima(struct remat_arena *arena, const struct remat_instance *in,
                         uint64_t *levels[32])
{
    levels[0] = in->live;
    for (uint32_t k = 1; k < 32 && (UINT64_C(1) << k) <= in->positions; k++) {
        uint32_t width = in->positions - (1u << k) + 1, half = 1u << (k - 1);
        REMAT_NEW(arena, levels[k], width);
        for (uint32_t p = 0; p < width; p++) {
            uint64_t a = levels[k - 1][p], b = levels[k - 1][p + half];
            levels[k][p] = a > b ? a : b;
        }
    }
}

/* T is a range maximum: a sparse table over the live profile. O((N + P) log P) for P positions. */
static void find_traits(struct remat_arena *arena, struct remat_instance *in)
{
    uint64_t *levels[32];
    uint32_t *ended; /* the number of slots with end <= position */
    range_maxima(arena, in, levels);
    REMAT_NEW(arena, ended, (size_t)in->positions + 1);
    for (uint32_t i = 0; i < in->count; i++)
        ended[in->slots[i].end]++;
    for (uint32_t p = 0; p < in->positions; p++)
        ended[p + 1] += ended[p];
    REMAT_NEW(arena, in->traits, in->count);
    for (uint32_t i = 0; i < in->count; i++) {
        const struct remat_slot *s = &in->slots[i];
        uint32_t length = s->end - s->begin, k = 31 - (uint32_t)__builtin_clz(length);
        uint64_t a = levels[k][s->begin], b = levels[k][s->end - (1u << k)], area;
        if (!remat_mul_u64(length, s->bytes / REMAT_ALIGNMENT, &area))
            area = UINT64_MAX;
        in->traits[i] = (struct remat_traits){{length, s->bytes, area, a > b ? a : b,
                                               in->first_at[s->end] - ended[s->begin], s->end,
                                               UINT64_MAX - s->begin}};
    }
}

struct remat_instance remat_instance_create(struct remat_arena *arena,
                                            const struct remat_slot *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert(slots[i].begin <= slots[i].end);
    struct remat_instance out = {0};
    sort_slots(arena, slots, count, &out);
    compress_time(arena, &out);
    find_live(arena, &out);
    find_traits(arena, &out);
    return out;
}

void remat_order_by_key(const struct remat_instance *in, const char *key,
                        struct remat_ranked *scratch, remat_slot_id *order)
{
    static const char letters[] = "WZATOUL";
    for (uint32_t i = 0; i < in->count; i++) {
        scratch[i] = (struct remat_ranked){.slot = {i}};
        for (int k = 0; k < 3 && key[k]; k++)
            scratch[i].value[k] = in->traits[i].of[strchr(letters, key[k]) - letters];
    }
    remat_sort_ranked(scratch, in->count, order);
}
