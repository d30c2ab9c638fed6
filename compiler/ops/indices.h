/* SPDX-License-Identifier: Apache-2.0 */
/* Which input of an op has indices, and into what. */
#ifndef REMAT_INDICES_H
#define REMAT_INDICES_H

#include "ops.h"

/* Bound 0: the elements of input k are no indices. */
struct remat_indices remat_op_indices(const struct remat_graph *graph,
                                      const struct remat_node_info *node, uint32_t k);

#endif
