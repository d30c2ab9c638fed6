/* SPDX-License-Identifier: Apache-2.0 */
/* Placed slots are kept in the order of their offsets, so that one scan sees the gaps between those
 * that overlap the next slot in time. Unlike the skyline these fill holes. */
#include "packers.h"

static uint64_t find_gap(const struct remat_fit_block *placed, uint32_t count,
                         const struct remat_slot *slot, bool best)
{
    uint64_t top = 0, chosen = 0, chosen_gap = UINT64_MAX;
    for (uint32_t k = 0; k < count; k++) {
        const struct remat_fit_block *p = &placed[k];
        if (p->begin >= slot->end || p->end <= slot->begin || p->top <= top)
            continue;
        if (p->offset >= top + slot->bytes && p->offset - top < chosen_gap) {
            chosen = top;
            chosen_gap = p->offset - top;
            if (!best)
                break;
        }
        top = p->top;
    }
    return chosen_gap < UINT64_MAX ? chosen : top;
}

uint64_t remat_fit_pack(const struct remat_instance *in, const uint32_t *order, bool best,
                        uint64_t bound_bytes, struct remat_fit_block *scratch, uint64_t *offsets)
{
    uint64_t height = 0;
    for (uint32_t count = 0; count < in->count; count++) {
        const struct remat_slot *slot = &in->slots[order[count]];
        uint64_t offset = find_gap(scratch, count, slot, best);
        uint64_t top = offset + slot->bytes;
        if (top > height)
            height = top;
        if (height >= bound_bytes)
            return UINT64_MAX;
        uint32_t k = count;
        for (; k > 0 && scratch[k - 1].offset > offset; k--)
            scratch[k] = scratch[k - 1];
        scratch[k] = (struct remat_fit_block){slot->begin, slot->end, offset, top};
        offsets[order[count]] = offset;
    }
    return height;
}
