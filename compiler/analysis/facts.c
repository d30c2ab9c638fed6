/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis.h"

#include "ops.h"

/* Values of which the backward pass reads a later version: their readers cannot run again there. An
 * update that nobody reads waits for them. */
static bool *find_replaced(struct remat_arena *arena, const struct remat_graph *graph,
                           const remat_value *root)
{
    bool *out, *read;
    REMAT_NEW(arena, out, graph->value_count);
    REMAT_NEW(arena, read, graph->value_count);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool updates =
            remat_op_has(node->op, REMAT_FACT_IN_PLACE) && node->phase != REMAT_PHASE_OPTIMIZER;
        for (uint32_t k = 0; updates && k < node->output_count; k++)
            out[root[node->inputs[k].i].i] = read[node->outputs[k].i];
        for (uint32_t i = 0; i < remat_op_reads(node); i++)
            read[node->inputs[i].i] = true;
    }
    return out;
}

static bool reads(const struct remat_node_info *node, const bool *values,
                  const struct remat_facts *facts)
{
    for (uint32_t i = 0; i < remat_op_reads(node); i++)
        if (values[facts->root[node->inputs[i].i].i])
            return true;
    return false;
}

static void find_recomputable(const struct remat_graph *graph, const bool *replaced,
                              struct remat_facts *facts)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool view = remat_op_has(node->op, REMAT_FACT_VIEW);
        for (uint32_t i = 0; i < node->output_count; i++) {
            remat_value v = node->outputs[i];
            bool forward = !view && node->phase == REMAT_PHASE_FORWARD && node->instance == 0;
            facts->forward[v.i] = forward;
            facts->recomputable[v.i] =
                forward && remat_op_recomputable(node->op) && !reads(node, replaced, facts);
        }
    }
}

static void find_needed(const struct remat_graph *graph, struct remat_facts *facts)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool late = node->phase == REMAT_PHASE_BACKWARD || node->phase == REMAT_PHASE_OPTIMIZER;
        if (!late || remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t i = 0; i < remat_op_reads(node); i++)
            facts->needed[facts->root[node->inputs[i].i].i] = true;
    }
}

void remat_facts_create(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_facts *out)
{
    uint32_t count = graph->value_count;
    out->root = remat_find_roots(arena, graph);
    REMAT_NEW(arena, out->forward, count);
    REMAT_NEW(arena, out->recomputable, count);
    REMAT_NEW(arena, out->needed, count);
    REMAT_NEW(arena, out->output, count);
    find_recomputable(graph, find_replaced(arena, graph, out->root), out);
    find_needed(graph, out);
    for (uint32_t i = 0; i < graph->output_count; i++)
        out->output[out->root[graph->outputs[i].i].i] = true;
    for (uint32_t i = 0; i < graph->update_count; i++)
        out->output[out->root[graph->updates[i].value.i].i] = true;
}
