/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters in parts on the ranks along "dp" (ZeRO-3). A parameter, or what a rank along "tp" has
 * of it, becomes this rank's part, and a gather of all parts, just before its first reader, is what
 * all its readers read: a value like any other, which may be kept for the backward pass or gathered
 * again. */
#include "rebuild.h"

struct sharder {
    struct remat_rebuild r;
    struct remat_builder b;
    int64_t ranks;
    bool *in_parts; /* by old value: a parameter that is not gathered yet */
};

/* All that the ranks divide, with a gradient or without. */
static void divide_parameters(struct sharder *s)
{
    const struct remat_graph *from = s->r.from;
    REMAT_NEW(s->r.arena, s->in_parts, from->value_count);
    for (uint32_t v = 0; v < from->value_count; v++) {
        const struct remat_value_info *old = &from->values[v];
        struct remat_value_info *here = &s->r.to->values[s->r.values[v].i];
        if (old->role != REMAT_ROLE_PARAMETER || !remat_is_none(old->node.i))
            continue;
        const struct remat_rank_part *part = remat_make_block(&s->b, "dp", old);
        if (!part)
            continue;
        here->part = part;
        here->shape = (struct remat_shape){1, {remat_shape_elements(&old->shape) / s->ranks}};
        s->in_parts[v] = true;
    }
}

static void gather(struct sharder *s, remat_value v, const struct remat_node_info *reader)
{
    const struct remat_shape *whole = &s->r.from->values[v.i].shape;
    remat_value *part = &s->r.values[v.i];
    s->b.name = REMAT_FORMAT(s->r.arena, "%s.gathered", s->r.from->values[v.i].name);
    s->b.scope = reader->scope;
    s->b.phase = reader->phase;
    *part = remat_build_gather(&s->b, "dp", *part, whole);
    s->in_parts[v.i] = false;
}

REMAT_PASS(shard)
{
    struct sharder s = {.ranks = remat_mesh_size(&graph->mesh, "dp")};
    if (settings->zero < 3)
        return remat_pass_nothing(graph, out);
    s.r = remat_rebuild_begin(arena, graph, 1);
    s.b = (struct remat_builder){.arena = arena, .graph = s.r.to};
    divide_parameters(&s);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++) {
        const struct remat_node_info *node = &graph->nodes[n.i];
        for (uint32_t i = 0; i < node->input_count; i++)
            if (s.in_parts[node->inputs[i].i])
                gather(&s, node->inputs[i], node);
        remat_rebuild_copy(&s.r, n);
    }
    *out = remat_rebuild_finish(&s.r);
    return REMAT_OK;
}
