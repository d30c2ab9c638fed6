/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in parts: a rank draws what lies there in the whole. */
#ifndef REMAT_DIVIDE_RANDOM_H
#define REMAT_DIVIDE_RANDOM_H

#include "divider.h"

/* Attention with dropout, whose entries are drawn one by one. */
void remat_divide_attention(struct divider *d, const struct remat_node_info *node,
                            const remat_value *inputs);
/* A node random. */
void remat_divide_random(struct divider *d, const struct remat_node_info *node, remat_value rng);

#endif
