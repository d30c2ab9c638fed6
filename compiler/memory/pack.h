/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets for slots in one arena such that slots that live at the same time never overlap.
 *
 * Minimising arena_bytes is NP-complete (dynamic storage allocation, Garey and Johnson SR2); the
 * live peak is a lower bound, which structured plans reach. */
#ifndef REMAT_PACK_H
#define REMAT_PACK_H

#include "slot.h"

struct remat_packing {
    uint64_t *offsets;        /* bytes, one per slot, multiples of REMAT_ALIGNMENT; of the arena */
    uint64_t arena_bytes;     /* the largest offset + rounded bytes */
    uint64_t live_peak_bytes; /* the largest sum of rounded bytes at any position */
};

/* Slots fall into parts, between moments at which none lives: each part has the offsets that it has
 * alone. For a part it tries a fixed sequence of attempts and keeps the first of the lowest: the
 * skyline packer with the keys OZ, TAW, TWA, L, WAT, AT, TZW, ZAT (letters: instance.h). If that
 * leaves a gap above the live peak and there are at most 4,000 slots, a local search perturbs the
 * winner, from a fixed seed: it packs at most 500,000 slots, and ends after 100,000 without a gain.
 * The first attempt with arena_bytes equal to the live peak is the last. There is no time limit:
 * the same arguments give the same packing.
 *
 * `offsets` is allocated from `arena`; scratch memory is released. In practice O(N log N) per
 * key (1 to 10 us a slot); the whole sequence takes under 1 s at 20,000 slots when the live peak is
 * not reached. */
struct remat_packing remat_pack(struct remat_arena *arena, const struct remat_slot *slots,
                                uint32_t count);

/* pack_check.c: checks a packing by its definition alone, sharing no code with the packers.
 * REMAT_OK if no two slots overlap in both time and bytes, every offset is a multiple of
 * REMAT_ALIGNMENT, arena_bytes covers every slot, and live_peak_bytes is the live peak; otherwise
 * REMAT_ERROR_INTERNAL, with a message that names the slots. `slots`: those that were packed.
 * O(N log N). */
remat_status remat_pack_check(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                              const struct remat_packing *packing);

#endif
