/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a packing with nothing but its definition; shares no code with the packers. */
#ifndef REMAT_PACK_CHECK_H
#define REMAT_PACK_CHECK_H

#include "pack.h"

/* REMAT_OK when no two slots overlap in time and in bytes, every offset is a multiple of
 * REMAT_ALIGNMENT, arena_bytes covers every slot, and live_peak_bytes is the live peak;
 * otherwise REMAT_ERROR_INTERNAL with a message that names the slots. The slots are
 * those that were packed. O(N log N). */
remat_status remat_pack_check(remat_context *ctx, const struct remat_slot *slots, uint32_t count,
                              const struct remat_packing *packing);

#endif
