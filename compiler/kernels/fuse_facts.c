/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse_facts.h"

static uint32_t facts_of(const struct remat_graph *g, const struct remat_node_info *node)
{
    const struct remat_value_info *first = &g->values[node->outputs[0].i];
    uint32_t facts = remat_op_info(node->op)->facts;
    if (node->op == REMAT_OP_constant || node->op == REMAT_OP_column)
        facts |= REMAT_FUSE_INLINE;
    if (node->op == REMAT_OP_column)
        facts |= REMAT_FUSE_COLUMN;
    if (node->op == REMAT_OP_cast)
        facts |= REMAT_FUSE_CAST;
    if (node->op == REMAT_OP_cast && first->dtype == REMAT_F32)
        facts |= REMAT_FUSE_WIDENS;
    if (first->role != REMAT_ROLE_ACTIVATION)
        facts |= REMAT_FUSE_ROLE;
    return facts;
}

const struct remat_shape *remat_fuse_space(const struct remat_graph *g,
                                           const struct remat_node_info *node)
{
    static const struct remat_shape scalar = {.rank = 1, .dims = {1}};
    bool reduces = remat_op_has(node->op, REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE);
    const struct remat_shape *shape =
        &g->values[(reduces ? node->inputs[0] : node->outputs[0]).i].shape;
    return shape->rank ? shape : &scalar;
}

struct remat_fuse_facts remat_fuse_facts_create(struct remat_arena *arena,
                                                const struct remat_graph *graph)
{
    struct remat_fuse_facts out = {0};
    REMAT_NEW(arena, out.nodes, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        const struct remat_shape *space = remat_fuse_space(graph, node);
        out.nodes[n] = (struct remat_fuse_node){
            .facts = facts_of(graph, node),
            .space = space,
            .elements = remat_shape_elements(space),
            .output = node->outputs[0].i,
            .input_count = node->input_count,
            .inputs = node->inputs,
            .output_count = node->output_count,
            .bucket = node->phase == REMAT_PHASE_LOSS ? REMAT_PHASE_FORWARD : node->phase};
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        REMAT_PUSH(arena, &out.lasting, graph->outputs[o].i);
    for (uint32_t u = 0; u < graph->update_count; u++)
        REMAT_PUSH(arena, &out.lasting, graph->updates[u].value.i);
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].role == REMAT_ROLE_GRADIENT)
            REMAT_PUSH(arena, &out.lasting, v);
    return out;
}
