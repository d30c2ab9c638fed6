/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of one packing as the packers see them; internal to memory/. */
#ifndef REMAT_MEMORY_INSTANCE_H
#define REMAT_MEMORY_INSTANCE_H

#include "slot.h"
#include <base.h>

/* Slots that need memory, in the order (begin, end descending, index). Time is compressed: position
 * p is the interval between the p-th and the next of the distinct begins and ends, times[p] and
 * times[p + 1]. Sizes are rounded up to REMAT_ALIGNMENT. All arrays are of the arena. */
struct remat_instance {
    uint32_t count, positions;
    struct remat_slot *slots;
    uint32_t *index;    /* of each slot in the caller's array */
    uint32_t *first_at; /* positions + 1: the number of slots with begin < position */
    uint32_t *times;    /* positions + 1 */
    uint64_t *live;     /* bytes at each position */
    uint64_t live_peak_bytes;
};

remat_status remat_instance_create(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_slot *slots, uint32_t count,
                                   struct remat_instance *out);

#endif
