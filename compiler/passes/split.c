/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators are where the two graphs meet: in the update each stands for its newest version, and
 * what made that is dead. */
#include "rebuild.h"

static bool is_update(const struct remat_graph *graph, struct remat_update update)
{
    return graph->nodes[graph->values[update.value.i].node].phase == REMAT_PHASE_OPTIMIZER;
}

/* The graph with those updates that are the optimizer's, or with those that are not. */
static void keep_updates(struct remat_arena *arena, const struct remat_graph *graph, bool optimizer,
                         struct remat_graph *out)
{
    *out = *graph;
    out->update_count = 0;
    REMAT_NEW(arena, out->updates, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (is_update(graph, graph->updates[u]) == optimizer)
            out->updates[out->update_count++] = graph->updates[u];
}

struct remat_graph *remat_split_microbatch(struct remat_arena *arena,
                                           const struct remat_graph *graph)
{
    struct remat_graph part;
    keep_updates(arena, graph, false, &part);
    struct remat_rebuild r = remat_rebuild_start(arena, &part);
    remat_rebuild_live(&r);
    return remat_rebuild_finish(&r);
}

struct remat_graph *remat_split_update(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_graph part;
    keep_updates(arena, graph, true, &part);
    part.output_count = 0;
    struct remat_rebuild r = remat_rebuild_start(arena, &part);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (!is_update(graph, graph->updates[u]))
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    remat_rebuild_live(&r);
    return remat_rebuild_finish(&r);
}
