/* SPDX-License-Identifier: Apache-2.0 */
/* Turns groups of nodes (fuse_groups.h) into kernels: once it is known which values other kernels
 * read, writes each group's body. */
#include "fuse.h"

#include "clone_round.h"
#include "fuse_groups.h"
#include "kernel_body.h"

#include <assert.h>

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

static bool is_inlined(const struct remat_node_info *node)
{
    uint32_t round = remat_clone_round(node->instance);
    return round && node->instance == remat_clone_instance(round, true);
}

/* The first node that is not inlined for others in the kernel. */
static const struct remat_node_info *name_of(const struct remat_graph *g, const remat_node *nodes,
                                             uint32_t count)
{
    uint32_t n = 0;
    while (n + 1 < count && is_inlined(&g->nodes[nodes[n].i]))
        n++;
    return &g->nodes[nodes[n].i];
}

/* The largest of the nodes' index spaces; the others are over its rows. */
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

struct remat_kernel_info remat_kernel_write(struct remat_kernel_writer *w, remat_node *nodes,
                                            uint32_t count, const bool *stored)
{
    assert(count > 0);
    const struct remat_node_info *first = name_of(w->graph, nodes, count);
    bool builtin = remat_op_has(first->op, REMAT_FACT_BUILTIN);
    struct remat_kernel_info kernel = {
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
    REMAT_NEW_UNINITIALIZED(arena, out.kernels, f.groups.count);
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

struct remat_kernel_info remat_fuse_nodes(struct remat_arena *arena,
                                          const struct remat_graph *graph,
                                          const uint32_t *kernel_of,
                                          const struct remat_kernel_info *whole, remat_node *nodes,
                                          uint32_t count, const bool *stored)
{
    struct remat_kernel_writer w = {
        .arena = arena, .scratch = arena, .graph = graph, .kernel_of = kernel_of};
    struct remat_kernel_info out = *whole;
    out.nodes = nodes;
    out.node_count = count;
    remat_fused_body(&w, stored, &out);
    return out;
}
