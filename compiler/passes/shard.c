/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters in parts on the ranks (ZeRO-3). A parameter becomes this rank's part, and a gather of
 * the whole, just before its first reader, is what all its readers read: a value like any other,
 * which may be kept for the backward pass or gathered again. */
#include "rebuild.h"
#include "transfers.h"

struct sharder {
    struct remat_rebuild r;
    struct remat_builder b;
    int64_t ranks;
    const struct remat_shape **whole; /* by old value: of a parameter that is not gathered yet */
};

/* All that the ranks divide, with a gradient or without. */
static void divide_parameters(struct sharder *s)
{
    const struct remat_graph *from = s->r.from;
    REMAT_NEW(s->r.arena, s->whole, from->value_count);
    for (uint32_t v = 0; v < from->value_count; v++) {
        const struct remat_value_info *old = &from->values[v];
        int64_t elements = remat_shape_elements(&old->shape);
        if (old->role != REMAT_ROLE_PARAMETER || !remat_is_none(old->node) || elements % s->ranks)
            continue;
        struct remat_value_info *part = &s->r.to->values[s->r.values[v].i];
        s->whole[v] = remat_copy(s->r.arena, &old->shape, 1, sizeof old->shape);
        part->whole = s->whole[v];
        part->shape = (struct remat_shape){1, {elements / s->ranks}};
    }
}

static void gather(struct sharder *s, uint32_t v, const struct remat_node_info *reader)
{
    const struct remat_shape *whole = s->whole[v];
    s->b.name = REMAT_FORMAT(s->r.arena, "%s.gathered", s->r.from->values[v].name);
    s->b.scope = reader->scope;
    s->b.phase = reader->phase;
    s->r.values[v] = remat_build_gather(&s->b, "dp", s->r.values[v], whole);
    s->whole[v] = NULL;
}

REMAT_PASS(shard)
{
    struct sharder s = {.ranks = remat_mesh_size(&graph->mesh, "dp")};
    if (graph->zero < 3) {
        *out = remat_graph_copy(arena, graph);
        return REMAT_OK;
    }
    s.r = remat_rebuild_begin(arena, graph);
    s.b = (struct remat_builder){.arena = arena, .graph = s.r.to};
    divide_parameters(&s);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++)
            if (s.whole[node->inputs[i].i])
                gather(&s, node->inputs[i].i, node);
        remat_rebuild_copy(&s.r, n);
    }
    *out = remat_rebuild_finish(&s.r);
    return REMAT_OK;
}
