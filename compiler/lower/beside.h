/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers beside computation. */
#ifndef REMAT_BESIDE_H
#define REMAT_BESIDE_H

#include "price.h"

struct remat_beside {
    remat_kernel_id *order;    /* by position: the kernel */
    uint32_t *complete_before; /* by position: of a transfer, the first position that may not begin
                                  before it is complete; of others the next one */
    bool *continues;           /* by position: a transfer of the group of the one before it */
    uint64_t ns;               /* of both lanes */
};

/* `order`: as remat_schedule has it; `prices`: by kernel, of each transfer as if it were alone.
 * Groups of transfers run one after the other on a lane of their own, at most two of them started
 * and not complete; all else runs in order, but what waits for a transfer lets pass what does not.
 * Gathers of parameters are in line, in groups too; a transfer beside computation that the next
 * of them would wait for, nearly all its time, starts after that one. */
struct remat_beside remat_run_beside(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_kernel_list *kernels,
                                     const struct remat_price *prices,
                                     const remat_kernel_id *order);

#endif
