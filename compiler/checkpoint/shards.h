/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a candidate as a shard: all ranks along "tp" have the same value, and each saves an equal
 * part of it. A slice takes the part behind the kernel that makes the value; the
 * backward pass and reruns read a gather of all parts, made before the first of them. */
#ifndef REMAT_SHARDS_H
#define REMAT_SHARDS_H

#include "settle.h"

/* Of all candidates; `settled` knows them. In the arena; shares what the graph points to. */
struct remat_shards remat_shards_create(struct remat_arena *arena,
                                        const struct remat_settled *settled,
                                        const struct remat_device_description *device);

#endif
