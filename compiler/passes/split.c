/* Accumulators are where the two graphs meet: in the update each stands for its newest version, and
 * what made that is dead. */
#include "rebuild.h"

static bool is_update(const struct remat_graph *graph, struct remat_update update)
{
    return graph->nodes[graph->values[update.value.i].node].phase == REMAT_PHASE_OPTIMIZER;
}

/* Keeps the updates that are the optimizer's, or those that are not. */
static void keep_updates(struct remat_graph *graph, bool optimizer)
{
    uint32_t kept = 0;
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (!remat_is_none(graph->values[graph->updates[u].value.i].node) &&
            is_update(graph, graph->updates[u]) == optimizer)
            graph->updates[kept++] = graph->updates[u];
    graph->update_count = kept;
}

static remat_status take_microbatch(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *copy;
    REMAT_TRY(remat_graph_copy(ctx, arena, graph, &copy));
    keep_updates(copy, false);
    REMAT_TRY(remat_pass_eliminate_dead(ctx, arena, copy, out));
fail:
    return st;
}

static remat_status take_update(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r;
    struct remat_graph *all;
    REMAT_TRY(remat_rebuild_begin(&r, ctx, arena, graph));
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (!is_update(graph, graph->updates[u]))
            r.values[graph->updates[u].value.i] = r.values[graph->updates[u].state.i];
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (remat_is_none(r.values[graph->nodes[n].outputs[0].i].i))
            REMAT_TRY(remat_rebuild_copy(&r, n));
    REMAT_TRY(remat_rebuild_finish(&r, &all));
    all->output_count = 0;
    keep_updates(all, true);
    REMAT_TRY(remat_pass_eliminate_dead(ctx, arena, all, out));
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
