/* Drops the nodes that no graph output, update or parameter gradient needs: marks backwards from
 * those, then copies what is marked. */
#include "rebuild.h"

static bool is_needed(const struct remat_graph *graph, const struct remat_node_info *node,
                      const bool *needed)
{
    for (uint32_t k = 0; k < node->output_count; k++) {
        uint32_t v = node->outputs[k].i;
        if (needed[v] || graph->values[v].role == REMAT_ROLE_GRADIENT)
            return true;
    }
    return false;
}

REMAT_PASS(eliminate_dead)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r;
    bool *needed, *live;
    REMAT_TRY(remat_rebuild_begin(&r, ctx, arena, graph));
    REMAT_NEW(arena, needed, graph->value_count);
    REMAT_NEW(arena, live, graph->node_count);
    for (uint32_t k = 0; k < graph->output_count; k++)
        needed[graph->outputs[k].i] = true;
    for (uint32_t k = 0; k < graph->update_count; k++)
        needed[graph->updates[k].value.i] = true;
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct remat_node_info *node = &graph->nodes[n];
        live[n] = is_needed(graph, node, needed);
        for (uint32_t k = 0; live[n] && k < node->input_count; k++)
            needed[node->inputs[k].i] = true;
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (live[n])
            REMAT_TRY(remat_rebuild_copy(&r, n));
    REMAT_TRY(remat_rebuild_finish(&r, out));
fail:
    return st;
}
