/* SPDX-License-Identifier: Apache-2.0 */
#include "keeps.h"

#include "amounts.h"
#include "clone_round.h"
#include "keep.h"
#include "kernel_body.h"

#include <assert.h>

struct maker {
    struct remat_builder b;
    struct REMAT_LIST(struct remat_border_way) ways;
    struct REMAT_LIST(struct remat_keep) keeps;
    struct REMAT_LIST(remat_kernel_id) kernel_of; /* by node that is made */
    struct remat_nodes kernels;                   /* of each its only node */
};

/* Nodes that were made for a value: views, and one in a kernel of its own. */
static remat_kernel_id finish(struct maker *m, uint32_t first_node, remat_value original)
{
    struct remat_graph *g = m->b.graph;
    const remat_kernel_id kernel = {(uint32_t)m->kernels.count};
    for (remat_node n = {first_node}; n.i < g->node_count; n.i++) {
        bool view = remat_op_has(g->nodes[n.i].op, REMAT_FACT_VIEW);
        g->values[g->nodes[n.i].outputs[0].i].original = original;
        REMAT_PUSH(m->b.arena, &m->kernel_of, view ? REMAT_NO_KERNEL : kernel);
        if (!view)
            REMAT_PUSH(m->b.arena, &m->kernels, n);
    }
    assert(m->kernels.count == kernel.i + 1);
    return kernel;
}

static void add(struct maker *m, remat_value v, uint8_t action)
{
    struct remat_builder *b = &m->b;
    struct remat_graph *g = b->graph;
    const struct remat_keep_nodes *row = remat_keep_rows[action];
    struct remat_keep keep = {.value = v};
    const char *suffix = remat_keep_words[action].suffix;
    uint32_t first_node = g->node_count;
    b->scope = remat_producer_info(g, v)->scope;
    b->prefix = g->values[v.i].name;
    b->phase = REMAT_PHASE_FORWARD;
    b->instance = 0;
    remat_value kept = row->put(b, v, REMAT_FORMAT(b->arena, "%s%s", b->prefix, suffix));
    keep.put = finish(m, first_node, v);
    g->values[kept.i].keep = action;
    first_node = g->node_count;
    b->name = b->prefix;
    b->phase = REMAT_PHASE_BACKWARD;
    b->instance = remat_clone_instance(1, false);
    keep.whole = row->get(b, v, kept);
    keep.get = finish(m, first_node, v);
    uint64_t bytes = remat_aligned_bytes(remat_storage_bytes(&g->values[kept.i]));
    REMAT_PUSH(b->arena, &m->keeps, keep);
    REMAT_PUSH(b->arena, &m->ways, ((struct remat_border_way){.bytes = bytes, .action = action}));
}

/* Values of given nodes that the kernels read lie in memory. */
static void price(struct maker *m, struct remat_arena *scratch,
                  const struct remat_device_description *device, struct remat_keeps *out)
{
    struct remat_arena *arena = m->b.arena;
    const struct remat_graph *g = m->b.graph;
    const bool stored = true;
    remat_kernel_id *kernel_of; /* by node */
    REMAT_NEW(arena, kernel_of, g->node_count);
    if (m->kernel_of.count)
        memcpy(kernel_of + g->node_count - m->kernel_of.count, m->kernel_of.items,
               m->kernel_of.count * sizeof *kernel_of);
    struct remat_kernel_writer *writer = remat_kernel_writer_create(arena, scratch);
    REMAT_NEW_UNINITIALIZED(arena, out->kernels.kernels, m->kernels.count);
    REMAT_NEW(arena, out->prices, m->kernels.count);
    for (uint32_t k = 0; k < m->kernels.count; k++) {
        struct remat_kernel_info *kernel = &out->kernels.kernels[out->kernels.count++];
        *kernel = remat_kernel_write(writer, g, &kernel_of->i, &m->kernels.items[k], 1, &stored);
        out->prices[k] = remat_price_kernel(g, kernel, device);
    }
    for (uint32_t w = 0; w < out->way_count; w++) {
        uint64_t put_ns = out->prices[out->keeps[w].put.i].ns;
        uint64_t get_ns = out->prices[out->keeps[w].get.i].ns;
        out->ways[w].put_ps = 1000 * (int64_t)put_ns;
        out->ways[w].ps = 1000 * (int64_t)remat_ns_add(put_ns, get_ns);
    }
}

struct remat_keeps remat_keeps_create(struct remat_arena *arena, struct remat_arena *scratch,
                                      const struct remat_graph *graph, const bool *candidates,
                                      const struct remat_device_description *device)
{
    const bool *legal[REMAT_ACTION_COUNT];
    struct remat_keeps out = {.graph = graph};
    struct maker m = {.b = {.arena = arena}};
    REMAT_NEW(arena, out.begin, graph->value_count + 1);
    if (!remat_keep_find_legal(arena, graph, legal))
        return out;
    m.b.graph = remat_graph_copy(arena, graph, 1);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        for (uint8_t a = 0; a < REMAT_ACTION_COUNT && candidates[v.i]; a++)
            if (legal[a] && legal[a][v.i])
                add(&m, v, a);
        out.begin[v.i + 1] = (uint32_t)m.ways.count;
    }
    out.graph = m.b.graph;
    out.way_count = (uint32_t)m.ways.count;
    out.ways = m.ways.items;
    out.keeps = m.keeps.items;
    out.kernel_of = m.kernel_of.items;
    price(&m, scratch, device, &out);
    return out;
}
