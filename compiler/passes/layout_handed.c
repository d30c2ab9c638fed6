/* SPDX-License-Identifier: Apache-2.0 */
/* What layers hand on: the post-dominators of the inputs, in the graph up to the loss. From the
 * loss backwards, a node's is the first that those of all its readers have in common. */
#include "layout_handed.h"

struct tree { /* of the nodes that every way to the loss passes next */
    uint32_t *next, *depth;
};

static uint32_t common(const struct tree *t, uint32_t a, uint32_t b)
{
    while (a != b)
        if (t->depth[a] >= t->depth[b])
            a = t->next[a];
        else
            b = t->next[b];
    return a;
}

void remat_layout_find_handed(struct finder *f)
{
    const struct remat_graph *graph = f->graph;
    struct tree t;
    uint32_t loss = graph->output_count ? remat_producer(graph, graph->outputs[0]).i : REMAT_NONE;
    REMAT_NEW(f->arena, f->handed, graph->node_count);
    REMAT_NEW(f->arena, t.next, graph->node_count);
    REMAT_NEW(f->arena, t.depth, graph->node_count);
    if (loss == REMAT_NONE)
        return;
    for (uint32_t n = 0; n < graph->node_count; n++)
        t.next[n] = REMAT_NONE;
    t.depth[loss] = 1;
    t.next[loss] = loss;
    for (uint32_t n = loss + 1; n-- > 0;) {
        if (t.next[n] == REMAT_NONE)
            continue; /* the loss does not need it */
        if (n != loss)
            t.depth[n] = t.depth[t.next[n]] + 1;
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            uint32_t from = remat_producer(graph, graph->nodes[n].inputs[k]).i;
            if (from != REMAT_NONE)
                t.next[from] = t.next[from] == REMAT_NONE ? n : common(&t, t.next[from], n);
        }
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        uint32_t at = REMAT_NONE;
        if (graph->values[v].role != REMAT_ROLE_INPUT)
            continue;
        for (uint32_t u = f->reader[v]; u != REMAT_NONE; u = f->next[u])
            if (f->user[u] <= loss && t.next[f->user[u]] != REMAT_NONE)
                at = at == REMAT_NONE ? f->user[u] : common(&t, at, f->user[u]);
        for (; at != REMAT_NONE && !f->handed[at]; at = t.next[at])
            f->handed[at] = true;
    }
}
