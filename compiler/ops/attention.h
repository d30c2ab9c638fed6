/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder. */
#ifndef REMAT_ATTENTION_H
#define REMAT_ATTENTION_H

#include "graph.h"

/* Of attention's products, or of the four of its gradient: not of the scores that this computes
 * again. */
uint64_t remat_attention_product_flops(const struct remat_graph *graph,
                                       const struct remat_node_info *node);

#endif
