/* SPDX-License-Identifier: Apache-2.0 */
/* Values that layers hand on: the post-dominators of the inputs, in the graph up to the loss. From
 * the loss backwards, a node's is the first that those of all its readers have in common. */
#include "layout_finder.h"

#include "tree.h"

/* Nodes that the loss needs: a node's parent is the next that every way to the loss passes. */
static void find_ways(struct finder *f, struct remat_tree *out)
{
    const struct remat_graph *graph = f->graph;
    remat_node loss =
        graph->output_count ? remat_producer(graph, graph->outputs[0]) : REMAT_NO_NODE;
    remat_tree_create(f->arena, graph->node_count, out);
    if (remat_is_none(loss.i))
        return;
    for (uint32_t n = loss.i + 1; n-- > 0;) {
        if (n != loss.i && out->parent[n] == REMAT_NONE)
            continue;
        remat_tree_add(out, n);
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            remat_node from = remat_producer(graph, graph->nodes[n].inputs[k]);
            if (!remat_is_none(from.i))
                out->parent[from.i] = remat_tree_common(out, out->parent[from.i], n);
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
        remat_node at = REMAT_NO_NODE;
        if (graph->values[v].role != REMAT_ROLE_INPUT)
            continue;
        for (use_id u = f->reader[v]; !remat_is_none(u.i); u = f->next[u.i])
            if (remat_tree_has(&ways, f->user[u.i].i))
                at.i = remat_tree_common(&ways, at.i, f->user[u.i].i);
        for (; !remat_is_none(at.i) && !f->handed[at.i]; at.i = ways.parent[at.i])
            f->handed[at.i] = true;
    }
}
