/* SPDX-License-Identifier: Apache-2.0 */
/* States are where the parts meet: in the parts after the one that completes it each stands for its
 * newest version, and what made that is dead. With several ranks gradients are complete in the
 * update, but for those that each rank accumulates its part of. */
#include "passes.h"

#include "rebuild.h"

/* The part that computes a value. */
static enum remat_split_part part_of(const struct remat_graph *graph, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(graph, value);
    const struct remat_value_info *state = &graph->values[remat_state_of(graph, value).i];
    bool accumulates = state->role == REMAT_ROLE_GRADIENT && remat_is_none(state->node.i);
    if (state->ahead)
        return REMAT_SPLIT_AHEAD;
    return node && node->phase == REMAT_PHASE_OPTIMIZER && !accumulates ? REMAT_SPLIT_UPDATE
                                                                        : REMAT_SPLIT_MICROBATCH;
}

/* Gradients of other parts need nothing in this one. */
static void drop_gradients(struct remat_arena *arena, struct remat_graph *graph,
                           enum remat_split_part part)
{
    bool copied = false;
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        bool computed = !remat_is_none(graph->values[v.i].node.i);
        if (graph->values[v.i].role != REMAT_ROLE_GRADIENT || !computed ||
            part_of(graph, v) == part)
            continue;
        if (!copied)
            graph->values =
                remat_copy(arena, graph->values, graph->value_count, sizeof *graph->values);
        copied = true;
        graph->values[v.i].role = REMAT_ROLE_ACTIVATION;
    }
}

struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                enum remat_split_part part)
{
    struct remat_graph own = *graph;
    if (part != REMAT_SPLIT_UPDATE)
        drop_gradients(arena, &own, part);
    own.update_count = 0;
    own.output_count = part == REMAT_SPLIT_MICROBATCH ? graph->output_count : 0;
    REMAT_NEW(arena, own.updates, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (part_of(graph, graph->updates[u].value) == part)
            own.updates[own.update_count++] = graph->updates[u];
    struct remat_rebuild r = remat_rebuild_begin(arena, &own, 1);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (part_of(graph, graph->updates[u].value) < part)
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    remat_rebuild_live(&r);
    return remat_rebuild_finish(&r);
}
