/* SPDX-License-Identifier: Apache-2.0 */
/* Traits of slots and orders by keys. T is a range maximum: a sparse table over the live profile.
 */
#include "packers.h"

#include <stdlib.h>

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

struct remat_traits *remat_traits_create(struct remat_arena *arena, const struct remat_instance *in)
{
    struct remat_traits *out;
    uint64_t *levels[32];
    uint32_t *ended; /* the number of slots with end <= position */
    range_maxima(arena, in, levels);
    REMAT_NEW(arena, ended, (size_t)in->positions + 1);
    for (uint32_t i = 0; i < in->count; i++)
        ended[in->slots[i].end]++;
    for (uint32_t p = 0; p < in->positions; p++)
        ended[p + 1] += ended[p];
    REMAT_NEW(arena, out, in->count);
    for (uint32_t i = 0; i < in->count; i++) {
        const struct remat_slot *s = &in->slots[i];
        uint32_t length = s->end - s->begin, k = 31 - (uint32_t)__builtin_clz(length);
        uint64_t a = levels[k][s->begin], b = levels[k][s->end - (1u << k)], area;
        if (!remat_mul_u64(length, s->bytes / REMAT_ALIGNMENT, &area))
            area = UINT64_MAX;
        out[i] = (struct remat_traits){{length, s->bytes, area, a > b ? a : b,
                                        in->first_at[s->end] - ended[s->begin], s->end,
                                        UINT64_MAX - s->begin}};
    }
    return out;
}

static int compare_ranked(const void *left, const void *right)
{
    const struct remat_ranked *a = left, *b = right;
    for (int k = 0; k < 3; k++)
        if (a->value[k] != b->value[k])
            return a->value[k] > b->value[k] ? -1 : 1;
    return (a->slot > b->slot) - (a->slot < b->slot);
}

void remat_sort_ranked(struct remat_ranked *ranked, uint32_t count, uint32_t *order)
{
    qsort(ranked, count, sizeof *ranked, compare_ranked);
    for (uint32_t i = 0; i < count; i++)
        order[i] = ranked[i].slot;
}

void remat_order_by_key(const struct remat_traits *traits, uint32_t count, const char *key,
                        struct remat_ranked *scratch, uint32_t *order)
{
    static const char letters[] = "WZATOUL";
    for (uint32_t i = 0; i < count; i++) {
        scratch[i] = (struct remat_ranked){.slot = i};
        for (int k = 0; k < 3 && key[k]; k++)
            scratch[i].value[k] = traits[i].of[strchr(letters, key[k]) - letters];
    }
    remat_sort_ranked(scratch, count, order);
}
