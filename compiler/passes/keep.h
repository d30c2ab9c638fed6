/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to keep a saved value: the nodes of each row of keeps.def. */
#ifndef REMAT_KEEP_H
#define REMAT_KEEP_H

#include "builder.h"

/* The node of a kernel of its own, with views where these are needed. */
struct remat_keep_nodes {
    /* By value, of those that may be recomputed: whether it may be kept so; NULL: none may. */
    const bool *(*legal)(struct remat_arena *arena, const struct remat_graph *graph);
    remat_value (*put)(struct remat_builder *b, remat_value v, const char *name); /* what is kept */
    remat_value (*get)(struct remat_builder *b, remat_value v, remat_value kept); /* v again */
};
#define KEEP(id, ...) extern const struct remat_keep_nodes remat_keep_##id;
#include "keeps.def"

#endif
