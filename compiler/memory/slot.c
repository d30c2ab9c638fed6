/* SPDX-License-Identifier: Apache-2.0 */
/* The profile is a difference array: a slot adds its bytes where it begins and takes them away
 * where it ends; the sums are taken modulo 2^64 and come out in range. */
#include "slot.h"

remat_status remat_slot_need(remat_context *ctx, const struct remat_slot *slots, uint32_t i,
                             uint64_t *total_bytes, uint64_t *out_bytes)
{
    const struct remat_slot *s = &slots[i];
    *out_bytes = 0;
    if (s->begin > s->end)
        return remat_error(ctx, REMAT_ERROR_INVALID, "memory slot %u: lifespan [%u, %u)", i,
                           s->begin, s->end);
    if (s->begin == s->end)
        return REMAT_OK;
    uint64_t bytes = s->bytes; /* a size that cannot be rounded up is too large as it is */
    if (bytes <= REMAT_SLOT_BYTES_MAX)
        bytes = remat_align_up(bytes, REMAT_ALIGNMENT);
    if (bytes > REMAT_SLOT_BYTES_MAX - *total_bytes)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "memory slot %u of %llu bytes: the slots up to it exceed 2^63 bytes", i,
                           (unsigned long long)s->bytes);
    *total_bytes += bytes;
    *out_bytes = bytes;
    return REMAT_OK;
}

remat_status remat_live_profile(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                                uint32_t positions, uint64_t *profile)
{
    remat_status st = REMAT_OK;
    uint64_t total_bytes = 0, bytes;
    for (uint32_t p = 0; p < positions; p++)
        profile[p] = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].end > positions)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "memory slot %u ends at %u, after position %u", i,
                       slots[i].end, positions);
        REMAT_TRY(remat_slot_need(ctx, slots, i, &total_bytes, &bytes));
        if (bytes == 0)
            continue;
        profile[slots[i].begin] += bytes;
        if (slots[i].end < positions)
            profile[slots[i].end] -= bytes;
    }
    for (uint32_t p = 1; p < positions; p++)
        profile[p] += profile[p - 1];
fail:
    return st;
}
