/* SPDX-License-Identifier: Apache-2.0 */
/* From the last node to the first: when a node's turn comes, all its readers that lead to the end
 * are in the tree. */
#include "analysis.h"

remat_value remat_first_result(const struct remat_graph *graph, remat_value value)
{
    remat_node node = remat_producer(graph, value);
    return remat_is_none(node.i) ? value : graph->nodes[node.i].outputs[0];
}

void remat_find_post_dominators(struct remat_arena *arena, const struct remat_graph *graph,
                                remat_value end, struct remat_tree *out)
{
    remat_tree_create(arena, graph->value_count, out);
    if (remat_is_none(end.i) || remat_is_none(remat_producer(graph, end).i))
        return;
    uint32_t last = remat_producer(graph, end).i;
    for (uint32_t n = last + 1; n-- > 0;) {
        const struct remat_node_info *node = &graph->nodes[n];
        uint32_t v = node->outputs[0].i;
        bool leads = n == last || !remat_is_none(out->parent[v]);
        if (!remat_in_forward_pass(node->phase) || !leads)
            continue;
        remat_tree_add(out, v);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t *parent = &out->parent[remat_first_result(graph, node->inputs[i]).i];
            *parent = remat_tree_common(out, *parent, v);
        }
    }
}
