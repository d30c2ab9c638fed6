/* SPDX-License-Identifier: Apache-2.0 */
/* First fit and best fit; internal to memory/. */
#ifndef REMAT_MEMORY_FIT_H
#define REMAT_MEMORY_FIT_H

#include "instance.h"

struct remat_fit_block { /* a placed slot */
    uint32_t begin, end;
    uint64_t offset, top; /* bytes */
};

/* Places the slots in `order`, each at the lowest gap that holds it or (best) at the tightest.
 * Returns as remat_skyline_pack does. `scratch` has room for all slots. O(N^2). */
uint64_t remat_fit_pack(const struct remat_instance *in, const uint32_t *order, bool best,
                        uint64_t bound_bytes, struct remat_fit_block *scratch, uint64_t *offsets);

#endif
