/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to keep a saved value: the nodes of each row of keeps.def. */
#ifndef REMAT_KEEP_H
#define REMAT_KEEP_H

#include "builder.h"

/* The node of a kernel of its own, with views where these are needed. In place, which is always
 * legal, there are none: all is NULL. */
struct remat_keep_nodes {
    /* By value, of those that may be recomputed: whether it may be kept so; NULL: none may. */
    const bool *(*legal)(struct remat_arena *arena, const struct remat_graph *graph);
    remat_value (*put)(struct remat_builder *b, remat_value v, const char *name); /* what is kept */
    remat_value (*get)(struct remat_builder *b, remat_value v, remat_value kept); /* v again */
};
#define KEEP(id, ...) extern const struct remat_keep_nodes remat_keep_##id;
#include "keeps.def"
/* By action; NULL: it is no way to keep. */
extern const struct remat_keep_nodes *const remat_keep_rows[REMAT_ACTION_COUNT];

/* By action: what its row's `legal` returns; NULL in place, too. False: all are. */
static inline bool remat_keep_find_legal(struct remat_arena *arena, const struct remat_graph *graph,
                                         const bool *out[REMAT_ACTION_COUNT])
{
    bool any = false;
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++) {
        const struct remat_keep_nodes *row = remat_keep_rows[a];
        out[a] = row && row->legal ? row->legal(arena, graph) : NULL;
        any |= out[a] != NULL;
    }
    return any;
}

#endif
