/* SPDX-License-Identifier: Apache-2.0 */
/* Order of execution of a kernel list. */
#ifndef REMAT_SCHEDULE_H
#define REMAT_SCHEDULE_H

#include "fuse.h"

/* By position: the kernel. Kernels run in graph order of their last node, each after what it
 * depends on: producers of what it reads and, where it replaces a version in place, every other
 * reader of the old version. Optimizer kernels run as soon as they can, so that a gradient dies
 * early. */
remat_kernel_id *remat_schedule(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels);

/* A kernel of the optimizer that takes this rank's part of a parameter: it waits for nothing, and
 * comes right before the update that reads it. */
bool remat_takes_part(const struct remat_fused_kernel *kernel);

#endif
