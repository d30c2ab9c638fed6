/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators are where the two graphs meet: in the update each stands for its newest version, and
 * what made that is dead. */
#include "rebuild.h"

static bool is_update(const struct remat_graph *graph, struct remat_update update)
{
    return graph->nodes[graph->values[update.value.i].node].phase == REMAT_PHASE_OPTIMIZER;
}

/* The graph with those updates that are the optimizer's, or with those that are not. */
static remat_status keep_updates(struct remat_arena *arena, const struct remat_graph *graph,
                                 bool optimizer, struct remat_graph *out)
{
    remat_status st = REMAT_OK;
    *out = *graph;
    out->update_count = 0;
    REMAT_NEW(arena, out->updates, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (is_update(graph, graph->updates[u]) == optimizer)
            out->updates[out->update_count++] = graph->updates[u];
fail:
    return st;
}

static remat_status take_microbatch(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph part;
    REMAT_TRY(keep_updates(arena, graph, false, &part));
    REMAT_TRY(remat_pass_eliminate_dead(ctx, arena, &part, out));
fail:
    return st;
}

static remat_status take_update(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r;
    struct remat_graph part;
    REMAT_TRY(keep_updates(arena, graph, true, &part));
    part.output_count = 0;
    REMAT_TRY(remat_rebuild_start(&r, ctx, arena, &part));
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (!is_update(graph, graph->updates[u]))
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    REMAT_TRY(remat_rebuild_live(&r));
    REMAT_TRY(remat_rebuild_finish(&r, out));
fail:
    return st;
}

remat_status remat_split(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_graph *graph, struct remat_graph **out_microbatch,
                         struct remat_graph **out_update)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(take_microbatch(ctx, arena, graph, out_microbatch));
    REMAT_TRY(take_update(ctx, arena, graph, out_update));
fail:
    return st;
}
