/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis.h"

#include "builder.h"
#include "ops.h"

remat_value *remat_find_roots(struct remat_arena *arena, const struct remat_graph *graph)
{
    remat_value *out;
    REMAT_NEW_UNINITIALIZED(arena, out, graph->value_count);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        out[v.i] = remat_storage_root(graph, v);
    return out;
}

/* --- absorbed nodes --- */

bool remat_is_made_by_readers(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_constant || node->op == REMAT_OP_column;
}

/* An exact cast of which nothing else is asked. */
static bool is_load(const struct remat_graph *graph, const struct remat_node_info *node)
{
    remat_value out = node->outputs[0];
    return remat_is_widening(graph, out) && graph->values[out.i].role == REMAT_ROLE_ACTIVATION;
}

/* What a node reads of memory is in it. */
static void read_input(const struct remat_graph *graph, const struct remat_node_info *reader,
                       remat_value input, const remat_value *root, bool *absorbed)
{
    bool builtin = remat_op_has(reader->op, REMAT_FACT_BUILTIN);
    bool as_is = builtin || remat_op_has(reader->op, REMAT_FACT_VIEW);
    remat_node from = remat_producer(graph, input), maker = remat_producer(graph, root[input.i]);
    if (as_is && !remat_is_none(from.i) && is_load(graph, &graph->nodes[from.i]))
        absorbed[from.i] = false;
    if (remat_is_none(maker.i) || (!as_is && maker.i == from.i))
        return;
    uint16_t op = graph->nodes[maker.i].op;
    if (op == REMAT_OP_column || (builtin && op == REMAT_OP_constant))
        absorbed[maker.i] = false;
}

static void find_absorbed(const struct remat_graph *graph, const remat_value *root, bool *out)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        out[n] = remat_op_has(node->op, REMAT_FACT_VIEW) || remat_is_made_by_readers(node) ||
                 is_load(graph, node);
        for (uint32_t i = 0; i < node->input_count; i++)
            read_input(graph, node, node->inputs[i], root, out);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        remat_node maker = remat_producer(graph, root[graph->outputs[o].i]);
        if (!remat_is_none(maker.i))
            out[maker.i] = false;
    }
}

void remat_find_sources(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_sources *out)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    REMAT_NEW_UNINITIALIZED(arena, out->absorbed, graph->node_count);
    REMAT_NEW_UNINITIALIZED(arena, out->of, graph->value_count);
    find_absorbed(graph, remat_find_roots(scratch, graph), out->absorbed);
    remat_scratch_close(scratch);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        out->of[v.i] = (struct remat_source){.root = v};
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        struct remat_source *source = &out->of[node->outputs[0].i];
        bool view = remat_op_has(node->op, REMAT_FACT_VIEW);
        if (!out->absorbed[n])
            continue;
        if (remat_is_made_by_readers(node)) {
            source->root = REMAT_NO_VALUE;
            continue;
        }
        *source = out->of[node->inputs[0].i];
        source->viewed |= view;
        source->cast |= !view;
    }
}

/* --- readers --- */

struct remat_readers remat_find_readers(struct remat_arena *arena, const struct remat_graph *graph,
                                        const struct remat_source *sources)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    struct remat_readers out;
    uint32_t inputs = 0, count = 0, *keys, *order;
    remat_node *nodes;
    for (uint32_t n = 0; n < graph->node_count; n++)
        inputs += graph->nodes[n].input_count;
    REMAT_NEW_UNINITIALIZED(scratch, keys, inputs);
    REMAT_NEW_UNINITIALIZED(scratch, nodes, inputs);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        for (uint32_t i = 0; i < graph->nodes[n.i].input_count; i++) {
            remat_value v = graph->nodes[n.i].inputs[i];
            keys[count] = sources ? sources[v.i].root.i : v.i;
            nodes[count] = n;
            count += !remat_is_none(keys[count]);
        }
    out.begin = remat_group_by_key(arena, keys, count, graph->value_count, &order);
    REMAT_NEW_UNINITIALIZED(arena, out.nodes, count);
    for (uint32_t k = 0; k < count; k++)
        out.nodes[k] = nodes[order[k]];
    remat_scratch_close(scratch);
    return out;
}

uint32_t *remat_count_uses(struct remat_arena *arena, const struct remat_graph *graph)
{
    uint32_t *uses;
    REMAT_NEW(arena, uses, graph->value_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++)
            uses[graph->nodes[n].inputs[k].i]++;
    for (uint32_t k = 0; k < graph->output_count; k++)
        uses[graph->outputs[k].i]++;
    for (uint32_t k = 0; k < graph->update_count; k++) {
        uses[graph->updates[k].state.i]++;
        uses[graph->updates[k].value.i]++;
    }
    return uses;
}
