/* SPDX-License-Identifier: Apache-2.0 */
/* From groups of nodes (fuse_groups.h) to kernels: when it is known which values are read
 * elsewhere, each group's body is written. */
#include "fuse.h"

#include "fuse_groups.h"
#include "kernel_body.h"

const struct remat_shape *remat_fuse_space(const struct remat_graph *g,
                                           const struct remat_node_info *node)
{
    static const struct remat_shape scalar = {.rank = 1, .dims = {1}};
    bool reduces = remat_op_has(node->op, REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE);
    const struct remat_shape *shape =
        &g->values[(reduces ? node->inputs[0] : node->outputs[0]).i].shape;
    return shape->rank ? shape : &scalar;
}

/* The shape has one element for each row of the space. */
static bool is_row(const struct remat_shape *shape, const struct remat_shape *space)
{
    if (shape->rank != space->rank || shape->dims[shape->rank - 1] != 1)
        return false;
    return memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

/* All that the node reads has at most one element a row. */
static bool reads_rows(const struct remat_graph *g, const struct remat_node_info *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_shape *shape = &g->values[node->inputs[i].i].shape;
        if (shape->rank && shape->dims[shape->rank - 1] != 1)
            return false;
    }
    return true;
}

/* What is loaded once for several columns is not stored in place. */
bool remat_fuse_fits(const struct remat_graph *g, const struct remat_node_info *node,
                     const struct remat_shape *space, bool rows, bool columns)
{
    const uint32_t whole = REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE | REMAT_FACT_IN_PLACE;
    const struct remat_shape *needed = remat_fuse_space(g, node);
    if (remat_shape_equal(needed, space))
        return !columns || !remat_op_has(node->op, REMAT_FACT_ROW_REDUCE);
    return rows && !columns && !remat_op_has(node->op, whole) && is_row(needed, space) &&
           reads_rows(g, node);
}

/* --- kernels --- */

struct remat_kernel_writer *remat_kernel_writer_create(struct remat_arena *arena,
                                                       struct remat_arena *scratch,
                                                       const struct remat_graph *graph,
                                                       const uint32_t *kernel_of)
{
    struct remat_kernel_writer *w;
    REMAT_NEW(arena, w, 1);
    *w = (struct remat_kernel_writer){
        .arena = arena, .scratch = scratch, .graph = graph, .kernel_of = kernel_of};
    return w;
}

/* The first node that is not there for others to read within the kernel alone. */
static const struct remat_node_info *name_of(const struct remat_graph *g, const remat_node *nodes,
                                             uint32_t count)
{
    uint32_t n = 0;
    while (n + 1 < count && g->nodes[nodes[n].i].instance && g->nodes[nodes[n].i].instance % 2 == 0)
        n++;
    return &g->nodes[nodes[n].i];
}

/* Of the nodes' index spaces the largest: others are over its rows. */
static const struct remat_shape *space_of(const struct remat_graph *g, const remat_node *nodes,
                                          uint32_t count)
{
    const struct remat_shape *largest = remat_fuse_space(g, &g->nodes[nodes[0].i]);
    for (uint32_t n = 1; n < count; n++) {
        const struct remat_shape *space = remat_fuse_space(g, &g->nodes[nodes[n].i]);
        if (remat_shape_elements(space) > remat_shape_elements(largest))
            largest = space;
    }
    return largest;
}

struct remat_fused_kernel remat_kernel_write(struct remat_kernel_writer *w, remat_node *nodes,
                                             uint32_t count, const bool *stored)
{
    const struct remat_node_info *first = name_of(w->graph, nodes, count);
    bool builtin = remat_op_has(first->op, REMAT_FACT_BUILTIN);
    struct remat_fused_kernel kernel = {
        .kind = builtin ? remat_op_info(first->op)->executor : (uint32_t)REMAT_KERNEL_fused,
        .phase = first->phase,
        .instance = first->instance,
        .scope = first->scope,
        .nodes = nodes,
        .node_count = count,
        .name = first->outputs[0],
    };
    if (builtin) {
        remat_builtin_body(w, &kernel);
    } else {
        kernel.space = *space_of(w->graph, nodes, count);
        remat_fused_body(w, stored, &kernel);
        remat_arena_reset(w->scratch);
        remat_kernel_list_shared(w->arena, w->graph, &kernel);
    }
    return kernel;
}

struct remat_kernel_list remat_fuse(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    struct remat_arena *body = remat_scratch_open(arena->ctx);
    struct remat_fuser f = {.arena = scratch, .graph = graph};
    struct remat_kernel_list out = {0};
    remat_fuse_collect(&f);
    struct remat_kernel_writer *w = remat_kernel_writer_create(arena, body, graph, &f.kernel_of->i);
    REMAT_ROOM(arena, out.kernels, f.groups.count);
    for (size_t g = 0; g < f.groups.count; g++) {
        remat_node *own;
        bool *stored;
        uint32_t own_count = 0;
        REMAT_NEW(arena, own, f.groups.items[g].node_count);
        REMAT_NEW(scratch, stored, f.groups.items[g].node_count);
        for (remat_node n = f.groups.items[g].first; !remat_is_none(n.i); n = f.next[n.i]) {
            stored[own_count] = f.stored[graph->nodes[n.i].outputs[0].i];
            own[own_count++] = n;
        }
        out.kernels[out.count++] = remat_kernel_write(w, own, own_count, stored);
    }
    remat_scratch_close(body);
    remat_scratch_close(scratch);
    return out;
}

struct remat_fused_kernel remat_fuse_nodes(struct remat_arena *arena,
                                           const struct remat_graph *graph,
                                           const uint32_t *kernel_of,
                                           const struct remat_fused_kernel *whole,
                                           remat_node *nodes, uint32_t count, const bool *stored)
{
    struct remat_kernel_writer w = {
        .arena = arena, .scratch = arena, .graph = graph, .kernel_of = kernel_of};
    struct remat_fused_kernel out = *whole;
    out.nodes = nodes;
    out.node_count = count;
    remat_fused_body(&w, stored, &out);
    return out;
}
