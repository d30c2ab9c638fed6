/* SPDX-License-Identifier: Apache-2.0 */
/* Which gradient is whose: that of parameter "w" is named "w.grad". Private. */
#ifndef REMAT_GRADIENTS_H
#define REMAT_GRADIENTS_H

#include "graph.h"

/* By value: the parameter whose gradient it is; REMAT_NO_VALUE: no gradient, or that of none. A new
 * version of a gradient in memory has the name of the memory. */
remat_value *remat_gradients_find(struct remat_arena *arena, const struct remat_graph *graph);

#endif
