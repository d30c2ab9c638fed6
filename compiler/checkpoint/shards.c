/* SPDX-License-Identifier: Apache-2.0 */
#include "shards.h"

#include "amounts.h"
#include "rebuild.h"

#define AXIS "tp"

struct maker {
    struct remat_builder b;
    struct REMAT_LIST(remat_site) runs_in; /* by node that is made */
    struct remat_nodes kernels;            /* of each its only node */
    remat_site first;
};

/* The node that makes a value, in a kernel of its own. */
static void finish(struct maker *m, remat_value made, remat_value original)
{
    struct remat_graph *g = m->b.graph;
    remat_node node = remat_producer(g, made);
    remat_site site = {m->first.i + (uint32_t)m->kernels.count};
    g->values[made.i].original = original;
    if (remat_op_has(g->nodes[node.i].op, REMAT_FACT_VIEW))
        site.i = REMAT_NONE;
    else
        REMAT_PUSH(m->b.arena, &m->kernels, node);
    REMAT_PUSH(m->b.arena, &m->runs_in, site);
}

static struct remat_shard make(struct maker *m, remat_value v)
{
    struct remat_builder *b = &m->b;
    const struct remat_value_info info = b->graph->values[v.i];
    const struct remat_attribute count =
        remat_attribute_int("count", remat_mesh_size(&b->graph->mesh, AXIS));
    int64_t elements = remat_shape_elements(&info.shape);
    struct remat_shard out = {0};
    b->scope = b->graph->nodes[info.node.i].scope;
    b->prefix = info.name;
    b->phase = REMAT_PHASE_FORWARD;
    b->instance = 0;
    remat_value flat = remat_build_reshape(b, v, &elements, 1);
    if (flat.i != v.i)
        finish(m, flat, v);
    b->name = REMAT_FORMAT(b->arena, "%s.part", info.name);
    const remat_value inputs[] = {flat, remat_graph_coordinate(b->graph, AXIS)};
    out.part = remat_build(b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    b->graph->values[out.part.i].part = remat_make_part(b, AXIS, &info.shape, elements / count.i);
    b->graph->values[out.part.i].sliced = true;
    finish(m, out.part, v);
    b->name = info.name;
    b->phase = REMAT_PHASE_BACKWARD;
    b->instance = 1;
    out.whole = remat_build_gather(b, AXIS, out.part, &info.shape);
    finish(m, out.whole, v);
    out.bytes = remat_aligned_bytes(remat_storage_bytes(&b->graph->values[out.part.i]));
    return out;
}

static void price(struct maker *m, const struct remat_device_description *device,
                  struct remat_shards *out)
{
    struct remat_arena *arena = m->b.arena;
    const struct remat_graph *g = m->b.graph;
    struct remat_kernel_writer *writer = remat_kernel_writer_create(arena, NULL, g, NULL);
    REMAT_ROOM(arena, out->kernels.kernels, m->kernels.count);
    REMAT_NEW(arena, out->prices, m->kernels.count);
    for (uint32_t k = 0; k < m->kernels.count; k++) {
        struct remat_fused_kernel *kernel = &out->kernels.kernels[out->kernels.count++];
        *kernel = remat_kernel_write(writer, &m->kernels.items[k], 1, NULL);
        struct remat_shard *shard = &out->of[g->values[kernel->name.i].original.i];
        out->prices[k] = remat_price_kernel(g, kernel, device);
        *(kernel->kind == REMAT_KERNEL_gather ? &shard->gather_ns : &shard->slice_ns) =
            out->prices[k].ns;
    }
}

struct remat_shards remat_shards_create(struct remat_arena *arena,
                                        const struct remat_settled *settled,
                                        const struct remat_device_description *device)
{
    const struct remat_graph *graph = settled->graph;
    struct remat_shards out = {.graph = graph};
    struct maker m = {.b = {.arena = arena}, .first = remat_site_end(settled)};
    REMAT_NEW(arena, out.of, graph->value_count);
    if (remat_mesh_size(&graph->mesh, AXIS) == 1)
        return out;
    m.b.graph = remat_graph_copy(arena, graph, 1);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (remat_is_candidate(settled, v) && settled->facts.may_shard[v.i])
            out.of[v.i] = make(&m, v);
    price(&m, device, &out);
    out.graph = m.b.graph;
    out.runs_in = m.runs_in.items;
    return out;
}
