/* SPDX-License-Identifier: Apache-2.0 */
/* Every pair of slots, and the sum of live bytes at every begin (the live bytes grow nowhere else).
 */
#include "pack_check.h"

static bool needs_memory(const struct remat_slot *slot)
{
    return slot->begin < slot->end && slot->bytes > 0;
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes % REMAT_ALIGNMENT ? bytes - bytes % REMAT_ALIGNMENT + REMAT_ALIGNMENT : bytes;
}

static remat_status check_slot(remat_context *ctx, const struct remat_slot *slots, uint32_t i,
                               const struct remat_packing *packing)
{
    uint64_t offset = packing->offsets[i], bytes = rounded(slots[i].bytes);
    if (offset % REMAT_ALIGNMENT)
        return remat_error(ctx, REMAT_ERROR_INTERNAL, "memory slot %u: offset %llu not aligned", i,
                           (unsigned long long)offset);
    if (offset > packing->arena_bytes || bytes > packing->arena_bytes - offset)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "memory slot %u: %llu bytes at %llu exceed the arena of %llu bytes", i,
                           (unsigned long long)bytes, (unsigned long long)offset,
                           (unsigned long long)packing->arena_bytes);
    return REMAT_OK;
}

static remat_status check_pair(remat_context *ctx, const struct remat_slot *slots, uint32_t i,
                               uint32_t j, const uint64_t *offsets)
{
    const struct remat_slot *a = &slots[i], *b = &slots[j];
    if (a->end <= b->begin || b->end <= a->begin)
        return REMAT_OK;
    if (offsets[i] + a->bytes <= offsets[j] || offsets[j] + b->bytes <= offsets[i])
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_INTERNAL,
                       "memory slots %u and %u overlap: [%u, %u) with %llu bytes at %llu, "
                       "[%u, %u) with %llu bytes at %llu",
                       i, j, a->begin, a->end, (unsigned long long)a->bytes,
                       (unsigned long long)offsets[i], b->begin, b->end,
                       (unsigned long long)b->bytes, (unsigned long long)offsets[j]);
}

static uint64_t live_bytes_at(const struct remat_slot *slots, uint32_t count, uint32_t position)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        if (slots[i].begin <= position && position < slots[i].end)
            bytes += rounded(slots[i].bytes);
    return bytes;
}

static remat_status check_peak(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                               const struct remat_packing *packing)
{
    uint64_t peak_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && slots[i].begin == slots[i - 1].begin)
            continue;
        uint64_t bytes = live_bytes_at(slots, count, slots[i].begin);
        if (bytes > peak_bytes)
            peak_bytes = bytes;
    }
    uint64_t there_bytes = live_bytes_at(slots, count, packing->peak_position);
    if (packing->live_peak_bytes != peak_bytes || there_bytes != peak_bytes)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "live peak: %llu bytes claimed, %llu at position %u, %llu at most",
                           (unsigned long long)packing->live_peak_bytes,
                           (unsigned long long)there_bytes, packing->peak_position,
                           (unsigned long long)peak_bytes);
    return REMAT_OK;
}

remat_status remat_pack_check(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                              const struct remat_packing *packing)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!needs_memory(&slots[i]))
            continue;
        REMAT_TRY(check_slot(ctx, slots, i, packing));
        for (uint32_t j = 0; j < i; j++)
            if (needs_memory(&slots[j]))
                REMAT_TRY(check_pair(ctx, slots, i, j, packing->offsets));
    }
    REMAT_TRY(check_peak(ctx, slots, count, packing));
fail:
    return st;
}
