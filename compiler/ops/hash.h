/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of graphs and attributes. */
#ifndef REMAT_HASH_H
#define REMAT_HASH_H

#include "ops.h"

/* Structure, dtypes, shapes, attributes, roles, initialisers and scopes; not value names. */
uint64_t remat_graph_hash(const struct remat_graph *graph);
uint64_t remat_attribute_hash(uint64_t seed, const struct remat_attribute *attribute);
/* To the bit, with the key. */
bool remat_attribute_equal(const struct remat_attribute *a, const struct remat_attribute *b);

#endif
