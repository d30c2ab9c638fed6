/* SPDX-License-Identifier: Apache-2.0 */
/* Order of execution of a kernel list. */
#ifndef REMAT_SCHEDULE_H
#define REMAT_SCHEDULE_H

#include "turn.h"

/* By position: the kernel, by the rules of turn.h. A kernel depends on producers of what it reads
 * and, where it replaces a version in place, on every other reader of the old version. */
remat_kernel_id *remat_schedule(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels);

#endif
