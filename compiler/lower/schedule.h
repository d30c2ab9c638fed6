/* SPDX-License-Identifier: Apache-2.0 */
/* Order of execution of a kernel list. */
#ifndef REMAT_SCHEDULE_H
#define REMAT_SCHEDULE_H

#include "fuse.h"

/* order[position] = kernel. Kernels run in graph order of their last node, each after what it
 * depends on: producers of what it reads and, where it replaces a version in place, every other
 * reader of the old version. Optimizer kernels run as soon as they can, so that a gradient dies
 * early. */
uint32_t *remat_schedule(struct remat_arena *arena, const struct remat_graph *graph,
                         const struct remat_kernel_list *kernels);

#endif
