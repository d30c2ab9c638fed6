/* SPDX-License-Identifier: Apache-2.0 */
/* Making a new graph from an old one node by node. Groups of nodes that came from one composite
 * stay groups; a group's number is the id of its first node in the new graph. */
#include "rebuild.h"

struct remat_rebuild remat_rebuild_begin(struct remat_arena *arena, const struct remat_graph *from,
                                         uint32_t room)
{
    return remat_rebuild_begin_without(arena, from, room, NULL);
}

struct remat_rebuild remat_rebuild_begin_without(struct remat_arena *arena,
                                                 const struct remat_graph *from, uint32_t room,
                                                 const bool *dropped)
{
    assert(room > 0);
    struct remat_graph *to = remat_copy(arena, from, 1, sizeof *from);
    struct remat_rebuild r = {.arena = arena, .from = from, .to = to};
    to->value_count = to->node_count = to->output_count = to->update_count = 0;
    to->value_capacity = to->node_capacity = 0;
    to->scopes = remat_copy(arena, from->scopes, from->scope_count, sizeof *from->scopes);
    to->scope_capacity = from->scope_count;
    to->scope_ids = (struct remat_index){0};
    remat_graph_reserve(arena, to, room * (size_t)from->value_count,
                        room * (size_t)from->node_count);
    REMAT_NEW_UNINITIALIZED(arena, r.values, from->value_count);
    REMAT_NEW_UNINITIALIZED(arena, r.groups, from->node_count);
    for (uint32_t n = 0; n < from->node_count; n++)
        r.groups[n] = REMAT_NONE;
    for (uint32_t v = 0; v < from->value_count; v++)
        r.values[v] = remat_is_none(from->values[v].node.i) && !(dropped && dropped[v])
                          ? remat_graph_add_value(arena, r.to, &from->values[v])
                          : REMAT_NO_VALUE;
    return r;
}

remat_value *remat_rebuild_inputs(struct remat_rebuild *r, const struct remat_node_info *node)
{
    remat_value *inputs = remat_array(r->arena, node->input_count, sizeof *inputs);
    for (uint32_t k = 0; k < node->input_count; k++)
        inputs[k] = r->values[node->inputs[k].i];
    return inputs;
}

uint32_t remat_rebuild_group(struct remat_rebuild *r, uint32_t old)
{
    if (old >= r->from->node_count)
        return r->to->node_count;
    if (r->groups[old] == REMAT_NONE)
        r->groups[old] = r->to->node_count;
    return r->groups[old];
}

void remat_rebuild_copy(struct remat_rebuild *r, remat_node n)
{
    assert(n.i < r->from->node_count);
    struct remat_node_info node = r->from->nodes[n.i];
    const remat_value *old = node.outputs;
    remat_value *inputs = remat_rebuild_inputs(r, &node), *outputs;
    REMAT_NEW_UNINITIALIZED(r->arena, outputs, node.output_count);
    for (uint32_t k = 0; k < node.output_count; k++) {
        outputs[k] = remat_graph_add_value(r->arena, r->to, &r->from->values[old[k].i]);
        r->values[old[k].i] = outputs[k];
    }
    node.inputs = inputs;
    node.outputs = outputs;
    node.origin_group = remat_rebuild_group(r, node.origin_group);
    remat_graph_append_node(r->arena, r->to, &node);
}

void remat_rebuild_replace(struct remat_rebuild *r, remat_value old, remat_value value)
{
    assert(old.i < r->from->value_count && value.i < r->to->value_count);
    struct remat_value_info info = r->from->values[old.i];
    struct remat_value_info *to = &r->to->values[value.i];
    info.node = to->node;
    info.result = to->result;
    *to = info;
    r->values[old.i] = value;
}

bool *remat_find_kept(struct remat_arena *arena, const struct remat_graph *graph)
{
    bool *kept;
    REMAT_NEW(arena, kept, graph->value_count);
    for (uint32_t k = 0; k < graph->output_count; k++)
        kept[graph->outputs[k].i] = true;
    for (uint32_t k = 0; k < graph->update_count; k++)
        kept[graph->updates[k].value.i] = true;
    return kept;
}

bool remat_is_needed(const struct remat_graph *graph, const struct remat_node_info *node,
                     const bool *needed)
{
    bool any = false;
    for (uint32_t k = 0; k < node->output_count; k++)
        any |= needed[node->outputs[k].i] ||
               graph->values[node->outputs[k].i].role == REMAT_ROLE_GRADIENT;
    return any;
}

void remat_rebuild_live(struct remat_rebuild *r)
{
    const struct remat_graph *from = r->from;
    bool *needed = remat_find_kept(r->arena, from), *live;
    REMAT_NEW(r->arena, live, from->node_count);
    for (uint32_t n = from->node_count; n-- > 0;) {
        const struct remat_node_info *node = &from->nodes[n];
        live[n] =
            remat_is_none(r->values[node->outputs[0].i].i) && remat_is_needed(from, node, needed);
        for (uint32_t k = 0; live[n] && k < node->input_count; k++)
            needed[node->inputs[k].i] = true;
    }
    for (remat_node n = {0}; n.i < from->node_count; n.i++)
        if (live[n.i])
            remat_rebuild_copy(r, n);
}

struct remat_graph *remat_rebuild_finish(struct remat_rebuild *r)
{
    const struct remat_graph *from = r->from;
    r->to->output_count = from->output_count;
    r->to->update_count = from->update_count;
    REMAT_NEW(r->arena, r->to->outputs, from->output_count);
    REMAT_NEW(r->arena, r->to->updates, from->update_count);
    for (uint32_t k = 0; k < from->output_count; k++)
        r->to->outputs[k] = r->values[from->outputs[k].i];
    for (uint32_t k = 0; k < from->update_count; k++)
        r->to->updates[k] = (struct remat_update){r->values[from->updates[k].state.i],
                                                  r->values[from->updates[k].value.i]};
    return r->to;
}

remat_value remat_add_input(struct remat_builder *b, const char *name, remat_dtype dtype,
                            struct remat_shape shape, uint8_t role)
{
    bool state = role == REMAT_ROLE_OPTIMIZER_STATE || role == REMAT_ROLE_STEP_STATE;
    const struct remat_value_info info = {
        .name = name,
        .shape = shape,
        .dtype = dtype,
        .role = role,
        .initializer = state ? REMAT_INIT_CONSTANT : REMAT_INIT_NONE,
        .node = REMAT_NO_NODE,
    };
    return remat_graph_add_value(b->arena, b->graph, &info);
}
