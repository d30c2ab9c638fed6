/* SPDX-License-Identifier: Apache-2.0 */
/* Values that layers hand on: the post-dominators of the inputs, in the graph up to the loss. From
 * the loss backwards, a node's is the first that those of all its readers have in common. */
#include "layout_handed.h"

#include "tree.h"

/* Nodes that the loss needs: a node's parent is the next that every way to the loss passes. */
static void find_ways(struct finder *f, struct remat_tree *out)
{
    const struct remat_graph *graph = f->graph;
    uint32_t loss = graph->output_count ? remat_producer(graph, graph->outputs[0]).i : REMAT_NONE;
    remat_tree_create(f->arena, graph->node_count, out);
    if (loss == REMAT_NONE)
        return;
    for (uint32_t n = loss + 1; n-- > 0;) {
        if (n != loss && out->parent[n] == REMAT_NONE)
            continue;
        remat_tree_add(out, n);
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            uint32_t from = remat_producer(graph, graph->nodes[n].inputs[k]).i;
            if (from != REMAT_NONE)
                out->parent[from] = remat_tree_common(out, out->parent[from], n);
        }
    }
}

void remat_layout_find_handed(struct finder *f)
{
    const struct remat_graph *graph = f->graph;
    struct remat_tree ways;
    find_ways(f, &ways);
    REMAT_NEW(f->arena, f->handed, graph->node_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        uint32_t at = REMAT_NONE;
        if (graph->values[v].role != REMAT_ROLE_INPUT)
            continue;
        for (uint32_t u = f->reader[v]; u != REMAT_NONE; u = f->next[u])
            if (remat_tree_has(&ways, f->user[u]))
                at = remat_tree_common(&ways, at, f->user[u]);
        for (; at != REMAT_NONE && !f->handed[at]; at = ways.parent[at])
            f->handed[at] = true;
    }
}
