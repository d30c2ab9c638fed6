/* SPDX-License-Identifier: Apache-2.0 */
/* The skyline packer. */
#ifndef REMAT_SKYLINE_H
#define REMAT_SKYLINE_H

#include "instance.h"

struct remat_skyline; /* working memory of one instance, reused by each call */

struct remat_skyline *remat_skyline_create(struct remat_arena *arena,
                                           const struct remat_instance *in);

/* Packs the slots, preferring those that come first in `order`. Returns the height in bytes and
 * fills `offsets` (indexed by slot of the instance), or returns UINT64_MAX as soon as the height
 * reaches bound_bytes. */
uint64_t remat_skyline_pack(struct remat_skyline *skyline, const remat_slot_id *order,
                            uint64_t bound_bytes, uint64_t *offsets);

#endif
