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

/* By value: all ranks along an axis have the same. So it is made of what all have, or gathered from
 * all of them; not of the coordinate, nor of parts. */
static bool *find_same(struct remat_arena *arena, const struct remat_graph *graph, uint32_t axis)
{
    remat_value coordinate = remat_graph_coordinate(graph, graph->mesh.axes[axis].name);
    bool *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_rank_part *part = graph->values[v].part;
        bool divided = part && (part->axis == axis || part->block_axis == axis);
        out[v] = remat_is_none(graph->values[v].node.i) && v != coordinate.i && !divided;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool along = remat_op_has(node->op, REMAT_FACT_COLLECTIVE) &&
                     remat_node_int(node, "group", -1) == axis;
        bool same = !along || node->op == REMAT_OP_gather;
        for (uint32_t i = 0; i < node->input_count && !along; i++)
            same &= out[node->inputs[i].i];
        for (uint32_t o = 0; o < node->output_count; o++)
            out[node->outputs[o].i] = same;
    }
    return out;
}

/* What is gathered needs no other shard than the one that it is gathered from. */
static void find_shards(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_facts *facts)
{
    uint32_t axis = remat_mesh_axis(&graph->mesh, "tp");
    if (axis == graph->mesh.axis_count)
        return;
    const bool *same = find_same(arena, graph, axis);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        facts->may_shard[v] = facts->recomputable[v] && same[v] && info->pitch == 0 &&
                              graph->nodes[info->node.i].op != REMAT_OP_gather &&
                              remat_shape_elements(&info->shape) % graph->mesh.axes[axis].size == 0;
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
    REMAT_NEW(arena, out->may_shard, count);
    find_recomputable(graph, find_replaced(arena, graph, out->root), out);
    find_needed(graph, out);
    for (uint32_t i = 0; i < graph->output_count; i++)
        out->output[out->root[graph->outputs[i].i].i] = true;
    for (uint32_t i = 0; i < graph->update_count; i++)
        out->output[out->root[graph->updates[i].value.i].i] = true;
    find_shards(arena, graph, out);
}
