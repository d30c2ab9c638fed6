/* SPDX-License-Identifier: Apache-2.0 */
/* What is packed: bytes that are needed during a lifespan. */
#ifndef REMAT_SLOT_H
#define REMAT_SLOT_H

#include <base.h>

/* The lifespan [begin, end) counts schedule positions. Sizes are rounded up to REMAT_ALIGNMENT.
 * A slot of no bytes or of an empty lifespan (begin == end) needs no memory. Values that share a
 * buffer (views, in-place results) are one slot: the union of their lifespans, the most bytes. */
struct remat_slot {
    uint32_t begin, end;
    uint64_t bytes;
};

#define REMAT_SLOT_BYTES_MAX ((uint64_t)INT64_MAX) /* of all slots of one packing together */

/* The rounded bytes that slots[i] needs, 0 if none, also added to *total_bytes. Fails with
 * REMAT_ERROR_INVALID, naming the slot, when it ends before it begins or when the total exceeds
 * REMAT_SLOT_BYTES_MAX. */
remat_status remat_slot_need(remat_context *ctx, const struct remat_slot *slots, uint32_t i,
                             uint64_t *total_bytes, uint64_t *out_bytes);

/* Writes the live bytes at each of `positions` positions to `profile`. Fails as above, and when a
 * lifespan ends after `positions`. O(count + positions). */
remat_status remat_live_profile(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                                uint32_t positions, uint64_t *profile);

#endif
