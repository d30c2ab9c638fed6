/* SPDX-License-Identifier: Apache-2.0 */
/* Constants whose elements the graph has. */
#ifndef REMAT_CONSTANT_H
#define REMAT_CONSTANT_H

#include "graph.h"

/* Why so many bytes cannot be the data of such a value; NULL: they can. */
const char *remat_constant_find_fault(const struct remat_value_info *value, uint64_t bytes);

/* The constant of the index that has the type and data of `value`, which is added if none has. */
remat_value remat_constant_find_or_add(struct remat_arena *arena, const struct remat_graph *graph,
                                       struct remat_index *index, remat_value value);

#endif
