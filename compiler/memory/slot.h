/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_SLOT_H
#define REMAT_SLOT_H

#include "base.h"

REMAT_INDEX(remat_slot_id); /* of an array of slots */

/* Slots to pack: bytes that are needed during a lifespan.
 * The lifespan [begin, end) counts schedule positions. Sizes are rounded up to REMAT_ALIGNMENT.
 * A slot of no bytes or of an empty lifespan (begin == end) needs no memory. Values that share a
 * buffer (views, in-place results) are one slot: the union of their lifespans, the most bytes. */
struct remat_slot {
    uint32_t begin, end;
    uint64_t bytes;
};

#define REMAT_SLOT_BYTES_MAX ((uint64_t)INT64_MAX) /* of all slots of one packing together */

#endif
