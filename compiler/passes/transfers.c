/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild.h"

#include <assert.h>

#include "mesh.h"

static remat_value transfer(struct remat_builder *b, uint16_t op, const char *axis, remat_value x,
                            const struct remat_shape *whole)
{
    assert(remat_mesh_axis(&b->graph->mesh, axis) < b->graph->mesh.axis_count);
    const struct remat_mesh *mesh = &b->graph->mesh;
    const struct remat_attribute attributes[] = {
        remat_attribute_int("group", remat_mesh_axis(mesh, axis)),
        remat_attribute_int("ranks", remat_mesh_size(mesh, axis)),
        remat_attribute_ints("shape", whole ? whole->dims : NULL, whole ? whole->rank : 0)};
    return remat_build(b, op, &x, 1, attributes, whole ? 3 : 2, NULL);
}

remat_value remat_build_exchange(struct remat_builder *b, const char *axis, remat_value x)
{
    return transfer(b, REMAT_OP_exchange, axis, x, NULL);
}

remat_value remat_build_gather(struct remat_builder *b, const char *axis, remat_value part,
                               const struct remat_shape *whole)
{
    return transfer(b, REMAT_OP_gather, axis, part, whole);
}

remat_value remat_build_row(struct remat_builder *b, remat_value x, int64_t q)
{
    assert(0 <= q && q < b->graph->values[x.i].shape.dims[0]);
    return remat_build_slice(b, x, 0, q, q + 1);
}

remat_value remat_build_coordinate(struct remat_builder *b, const char *axis)
{
    remat_value there = remat_graph_coordinate(b->graph, axis);
    if (!remat_is_none(there.i))
        return there;
    return remat_add_input(b, REMAT_FORMAT(b->arena, REMAT_COORDINATE_PREFIX "%s", axis), REMAT_I32,
                           (struct remat_shape){1, {1}}, REMAT_ROLE_STEP_STATE);
}

const struct remat_rank_part *remat_make_part(struct remat_builder *b, const char *axis,
                                              const struct remat_shape *whole, int64_t run)
{
    assert(run > 0 && remat_mesh_axis(&b->graph->mesh, axis) < b->graph->mesh.axis_count);
    const struct remat_rank_part part = {.whole = *whole,
                                         .run = run,
                                         .axis = remat_mesh_axis(&b->graph->mesh, axis),
                                         .block_axis = REMAT_NONE};
    return remat_copy(b->arena, &part, 1, sizeof part);
}

const struct remat_rank_part *remat_make_block(struct remat_builder *b, const char *axis,
                                               const struct remat_value_info *of)
{
    int64_t elements = remat_shape_elements(&of->shape);
    int64_t ranks = remat_mesh_size(&b->graph->mesh, axis);
    if (elements % ranks)
        return NULL;
    if (!of->part)
        return remat_make_part(b, axis, &of->shape, elements / ranks);
    struct remat_rank_part *part = remat_copy(b->arena, of->part, 1, sizeof *part);
    part->block_axis = remat_mesh_axis(&b->graph->mesh, axis);
    return part;
}
