/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a packer considers slots; internal to memory/. */
#ifndef REMAT_MEMORY_ORDER_H
#define REMAT_MEMORY_ORDER_H

#include "instance.h"

/* The letters of a key, compared lexicographically, descending except L, ties by slot:
 * W length of the lifespan in compressed time; Z bytes; A = W * Z; T the largest live bytes during
 * the lifespan; O the number of slots that overlap it in time; U end; L begin. */
enum { REMAT_TRAIT_COUNT = 7 };

struct remat_traits {
    uint64_t of[REMAT_TRAIT_COUNT]; /* in the order WZATOUL, larger comes first */
};

/* One per slot. O((N + P) log P) for P positions. */
struct remat_traits *remat_traits_create(struct remat_arena *arena,
                                         const struct remat_instance *in);

/* Slots ordered by up to three values, larger first, ties by slot. O(N log N). */
struct remat_ranked {
    uint64_t value[3];
    uint32_t slot;
};
void remat_sort_ranked(struct remat_ranked *ranked, uint32_t count, uint32_t *order);

/* `key` is a string of at most three of the letters; `scratch` has room for all slots. */
void remat_order_by_key(const struct remat_traits *traits, uint32_t count, const char *key,
                        struct remat_ranked *scratch, uint32_t *order);

#endif
