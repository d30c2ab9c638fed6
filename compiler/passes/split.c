/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators are where the two graphs meet: in the update each stands for its newest version, and
 * what made that is dead. With several ranks gradients are complete in the update, but for those
 * that each rank accumulates its part of. */
#include "passes.h"

#include "rebuild.h"

/* A value of the update. */
static bool is_later(const struct remat_graph *graph, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(graph, value);
    const struct remat_value_info *state = &graph->values[remat_state_of(graph, value).i];
    bool accumulates = state->role == REMAT_ROLE_GRADIENT && remat_is_none(state->node.i);
    return node && node->phase == REMAT_PHASE_OPTIMIZER && !accumulates;
}

struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                bool update)
{
    struct remat_graph part = *graph;
    for (remat_value v = {0}; !update && v.i < graph->value_count; v.i++)
        if (graph->values[v.i].role == REMAT_ROLE_GRADIENT && is_later(graph, v)) {
            if (part.values == graph->values)
                part.values =
                    remat_copy(arena, graph->values, graph->value_count, sizeof *graph->values);
            part.values[v.i].role = REMAT_ROLE_ACTIVATION; /* needs nothing here */
        }
    part.update_count = 0;
    part.output_count = update ? 0 : graph->output_count;
    REMAT_NEW(arena, part.updates, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (is_later(graph, graph->updates[u].value) == update)
            part.updates[part.update_count++] = graph->updates[u];
    struct remat_rebuild r = remat_rebuild_begin(arena, &part, 1);
    for (uint32_t u = 0; update && u < graph->update_count; u++)
        if (!is_later(graph, graph->updates[u].value))
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    remat_rebuild_live(&r);
    return remat_rebuild_finish(&r);
}
