/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the packers of one problem, and orders of its buffers. */
#ifndef REMAT_INSTANCE_H
#define REMAT_INSTANCE_H

#include "slot.h"
#include "unwind.h"

/* Slots that need memory, in the order (begin, end descending, index). Time is compressed: position
 * p is the interval between the p-th and the next of the distinct begins and ends. Sizes are
 * rounded up to REMAT_ALIGNMENT. All arrays are of the arena. */
struct remat_instance {
    uint32_t count, positions;
    struct remat_slot *slots;
    remat_slot_id *given; /* by slot: which of the caller's it is */
    uint32_t *first_at;   /* positions + 1: the number of slots with begin < position */
    uint64_t *live;       /* bytes at each position */
    uint64_t live_peak_bytes;
    struct remat_traits {
        uint64_t of[7]; /* in the order WZATOUL, larger comes first */
    } * traits;         /* by slot */
};

struct remat_instance remat_instance_create(struct remat_arena *arena,
                                            const struct remat_slot *slots, uint32_t count);

/* Slots ordered by up to three values, larger first, ties by slot. O(N log N). */
struct remat_ranked {
    uint64_t value[3];
    remat_slot_id slot;
};
void remat_sort_ranked(struct remat_ranked *ranked, uint32_t count, remat_slot_id *order);

/* `key` is a string of at most three letters, compared lexicographically, descending except L, ties
 * by slot: W length of the lifespan in compressed time; Z bytes; A = W * Z; T the largest live
 * bytes during the lifespan; O the number of slots that overlap it in time; U end; L begin.
 * `scratch` has room for all slots. */
void remat_order_by_key(const struct remat_instance *in, const char *key,
                        struct remat_ranked *scratch, remat_slot_id *order);

/* skyline.c: the skyline packer. */

struct remat_skyline; /* working memory for one instance, reused by each call */

struct remat_skyline *remat_skyline_create(struct remat_arena *arena,
                                           const struct remat_instance *in);

/* Packs the slots, preferring those that come first in `order`. Returns the height in bytes and
 * fills `offsets` (by slot of the instance), or returns UINT64_MAX as soon as the height reaches
 * bound_bytes. */
uint64_t remat_skyline_pack(struct remat_skyline *skyline, const remat_slot_id *order,
                            uint64_t bound_bytes, uint64_t *offsets);

#endif
