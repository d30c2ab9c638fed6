/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators are where the two graphs meet: in the update each stands for its newest version, and
 * what made that is dead. */
#include "rebuild.h"

static bool is_update(const struct remat_graph *graph, struct remat_update update)
{
    return graph->nodes[graph->values[update.value.i].node].phase == REMAT_PHASE_OPTIMIZER;
}

struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                bool update)
{
    struct remat_graph part = *graph;
    part.update_count = 0;
    part.output_count = update ? 0 : graph->output_count;
    REMAT_NEW(arena, part.updates, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (is_update(graph, graph->updates[u]) == update)
            part.updates[part.update_count++] = graph->updates[u];
    struct remat_rebuild r = remat_rebuild_begin(arena, &part);
    for (uint32_t u = 0; update && u < graph->update_count; u++)
        if (!is_update(graph, graph->updates[u]))
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    remat_rebuild_live(&r);
    return remat_rebuild_finish(&r);
}
