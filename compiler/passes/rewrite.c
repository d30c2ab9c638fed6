/* Copies the graph node by node; before a backward node it first clones, depth first, the chain of
 * recomputed values that the node reads. Each node is cloned at most once. */
#include "rewrite.h"

struct rewriter {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_graph *old;
    const struct remat_decision *decision;
    struct remat_graph *graph;
    remat_value *original; /* old value -> new value */
    remat_value *clone;    /* old value -> its clone, REMAT_NO_VALUE while there is none */
};

static bool is_forward(const struct remat_node_info *node)
{
    return node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
}

static bool is_recomputed(const struct rewriter *r, remat_value v)
{
    remat_value root = remat_storage_root(r->old, v);
    uint32_t producer = r->old->values[root.i].node;
    return r->decision->actions[root.i] == REMAT_ACTION_RECOMPUTE && !remat_is_none(producer) &&
           is_forward(&r->old->nodes[producer]);
}

static remat_status add_copy(struct rewriter *r, const struct remat_node_info *node,
                             const remat_value *inputs, remat_value *map, uint32_t instance)
{
    remat_status st = REMAT_OK;
    struct remat_node_info copy = *node;
    remat_value *outputs;
    remat_node id;
    REMAT_NEW(r->arena, outputs, node->output_count);
    for (uint32_t o = 0; o < node->output_count; o++) {
        uint32_t v = node->outputs[o].i;
        struct remat_value_info value = r->old->values[v];
        REMAT_TRY(remat_graph_add_value(r->arena, r->graph, &value, &outputs[o]));
        map[v] = outputs[o];
    }
    copy.inputs = inputs;
    copy.outputs = outputs;
    if (instance) {
        copy.instance = instance;
        copy.phase = REMAT_PHASE_BACKWARD;
    }
    REMAT_TRY(remat_graph_add_node(r->arena, r->graph, &copy, &id));
fail:
    return st;
}

/* The value that a backward node reads in place of `v`. */
static remat_status resolve(struct rewriter *r, remat_value v, remat_value *out)
{
    remat_status st = REMAT_OK;
    if (!is_recomputed(r, v)) {
        *out = r->original[v.i];
        return REMAT_OK;
    }
    if (remat_is_none(r->clone[v.i].i)) {
        const struct remat_node_info *node = &r->old->nodes[r->old->values[v.i].node];
        remat_value *inputs;
        REMAT_NEW(r->arena, inputs, node->input_count);
        for (uint32_t i = 0; i < node->input_count; i++)
            REMAT_TRY(resolve(r, node->inputs[i], &inputs[i]));
        REMAT_TRY(add_copy(r, node, inputs, r->clone, 1));
    }
    *out = r->clone[v.i];
fail:
    return st;
}

static remat_status copy_node(struct rewriter *r, const struct remat_node_info *node)
{
    remat_status st = REMAT_OK;
    remat_value *inputs;
    REMAT_NEW(r->arena, inputs, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (is_forward(node))
            inputs[i] = r->original[node->inputs[i].i];
        else
            REMAT_TRY(resolve(r, node->inputs[i], &inputs[i]));
    REMAT_TRY(add_copy(r, node, inputs, r->original, 0));
fail:
    return st;
}

static remat_status copy_lists(struct rewriter *r)
{
    remat_status st = REMAT_OK;
    struct remat_graph *g = r->graph;
    const struct remat_graph *old = r->old;
    g->optimizer = old->optimizer;
    REMAT_NEW(r->arena, g->outputs, old->output_count);
    for (uint32_t o = 0; o < old->output_count; o++)
        g->outputs[o] = r->original[old->outputs[o].i];
    g->output_count = old->output_count;
    REMAT_NEW(r->arena, g->updates, old->update_count);
    for (uint32_t u = 0; u < old->update_count; u++)
        g->updates[u] = (struct remat_update){r->original[old->updates[u].state.i],
                                              r->original[old->updates[u].value.i]};
    g->update_count = old->update_count;
fail:
    return st;
}

remat_status remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph, const struct remat_decision *decision,
                           struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct rewriter r = {.ctx = ctx, .arena = arena, .old = graph, .decision = decision};
    if (!(r.graph = remat_graph_create(ctx, arena, graph->name)))
        return REMAT_ERROR_MEMORY;
    r.graph->scopes = graph->scopes;
    r.graph->scope_count = graph->scope_count;
    r.graph->scope_capacity = graph->scope_count;
    REMAT_NEW(arena, r.original, graph->value_count);
    REMAT_NEW(arena, r.clone, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        r.clone[v] = REMAT_NO_VALUE;
        if (remat_is_none(graph->values[v].node))
            REMAT_TRY(remat_graph_add_value(arena, r.graph, &graph->values[v], &r.original[v]));
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        REMAT_TRY(copy_node(&r, &graph->nodes[n]));
    REMAT_TRY(copy_lists(&r));
    *out = r.graph;
fail:
    return st;
}
