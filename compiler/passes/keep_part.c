/* SPDX-License-Identifier: Apache-2.0 */
/* A part on each rank: all ranks along "tp" have the same value, and each keeps an equal part of
 * it, which a slice takes; a gather makes the whole of all parts. */
#include "keep.h"
#include "rebuild.h"

#define AXIS "tp"

/* By value: all ranks along an axis have the same. So it is made of what all have, or gathered from
 * all of them; not of the coordinate, nor of parts. */
static const bool *find_same(struct remat_arena *arena, const struct remat_graph *graph,
                             uint32_t axis)
{
    remat_value coordinate = remat_graph_coordinate(graph, AXIS);
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

/* Dense, and divided evenly. What is gathered needs no other part than that which it is gathered
 * from. */
static const bool *legal(struct remat_arena *arena, const struct remat_graph *graph)
{
    uint32_t axis = remat_mesh_axis(&graph->mesh, AXIS);
    bool *out;
    if (axis == graph->mesh.axis_count)
        return NULL;
    const bool *same = find_same(arena, graph, axis);
    REMAT_NEW(arena, out, graph->value_count);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        const struct remat_value_info *info = &graph->values[v.i];
        const struct remat_node_info *node = remat_producer_info(graph, v);
        out[v.i] = same[v.i] && node && node->op != REMAT_OP_gather && info->pitch == 0 &&
                   remat_shape_elements(&info->shape) % graph->mesh.axes[axis].size == 0;
    }
    return out;
}

static remat_value put(struct remat_builder *b, remat_value v, const char *name)
{
    const struct remat_value_info info = b->graph->values[v.i];
    const struct remat_attribute count =
        remat_attribute_int("count", remat_mesh_size(&b->graph->mesh, AXIS));
    int64_t elements = remat_shape_elements(&info.shape);
    remat_value flat = remat_build_reshape(b, v, &elements, 1);
    const remat_value inputs[] = {flat, remat_graph_coordinate(b->graph, AXIS)};
    b->name = name;
    remat_value part = remat_build(b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    b->graph->values[part.i].part = remat_make_part(b, AXIS, &info.shape, elements / count.i);
    return part;
}

static remat_value get(struct remat_builder *b, remat_value v, remat_value part)
{
    const struct remat_shape shape = b->graph->values[v.i].shape;
    return remat_build_gather(b, AXIS, part, &shape);
}

const struct remat_keep_nodes remat_keep_PART = {legal, put, get};
