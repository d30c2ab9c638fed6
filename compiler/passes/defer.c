/* SPDX-License-Identifier: Apache-2.0 */
/* A forward node that no other forward node needs would be fused and priced as one that runs in any
 * case, but a clone for the backward pass would leave it nothing to do. Nodes in reverse meet
 * readers first, so that a chain of such nodes is deferred as a whole. */
#include "rebuild.h"

struct deferral {
    const struct remat_graph *graph;
    bool *early;        /* by value: an output, or the forward pass or the loss reads it */
    uint32_t *used_at;  /* by value: the node that its first user comes before, or is */
    uint32_t *replaced; /* by value: the node that replaces it in place */
    uint32_t *place;    /* by node: a deferred one comes before this node, others are at it */
};

static bool is_deferred(const struct deferral *d, const struct remat_node_info *node)
{
    if (node->phase != REMAT_PHASE_FORWARD || !remat_op_recomputable(node->op))
        return false;
    for (uint32_t k = 0; k < node->output_count; k++)
        if (d->early[node->outputs[k].i])
            return false;
    return true;
}

static void keep_least(uint32_t *least, uint32_t n)
{
    if (n < *least)
        *least = n;
}

/* A node comes before all that use it, and before what replaces a state that it reads. */
static uint32_t find_place(const struct deferral *d, const struct remat_node_info *node)
{
    uint32_t place = d->graph->node_count;
    for (uint32_t k = 0; k < node->output_count; k++)
        keep_least(&place, d->used_at[node->outputs[k].i]);
    for (uint32_t k = 0; k < remat_op_reads(node); k++)
        keep_least(&place, d->replaced[remat_storage_root(d->graph, node->inputs[k]).i]);
    return place;
}

static void visit(struct deferral *d, uint32_t n)
{
    const struct remat_node_info *node = &d->graph->nodes[n];
    bool deferred = is_deferred(d, node);
    d->place[n] = deferred ? find_place(d, node) : n;
    for (uint32_t k = 0; k < remat_op_reads(node); k++)
        d->early[node->inputs[k].i] |= remat_is_early(node->phase) && !deferred;
    for (uint32_t k = 0; k < node->input_count; k++)
        keep_least(&d->used_at[node->inputs[k].i], d->place[n]);
    if (remat_op_has(node->op, REMAT_FACT_IN_PLACE) && node->phase != REMAT_PHASE_OPTIMIZER)
        for (uint32_t k = 0; k < node->output_count; k++)
            d->replaced[remat_storage_root(d->graph, node->inputs[k]).i] = n;
}

static void copy_deferred(struct remat_rebuild *r, uint32_t n)
{
    remat_rebuild_copy(r, (remat_node){n});
    r->to->nodes[r->to->node_count - 1].phase = REMAT_PHASE_BACKWARD;
}

REMAT_PASS(defer)
{
    struct deferral d = {.graph = graph, .early = remat_find_kept(arena, graph)};
    uint32_t count = graph->node_count, *first, *next; /* lists of deferred nodes, by place */
    bool any = false;
    REMAT_NEW(arena, d.used_at, graph->value_count);
    REMAT_NEW(arena, d.replaced, graph->value_count);
    REMAT_NEW(arena, d.place, count);
    REMAT_NEW(arena, first, count + 1);
    REMAT_NEW(arena, next, count);
    memset(d.used_at, 0xff, graph->value_count * sizeof *d.used_at);
    memset(d.replaced, 0xff, graph->value_count * sizeof *d.replaced);
    memset(first, 0xff, (count + 1) * sizeof *first);
    for (uint32_t n = count; n-- > 0;) {
        visit(&d, n);
        if (d.place[n] != n) {
            any = true;
            next[n] = first[d.place[n]];
            first[d.place[n]] = n;
        }
    }
    if (!any)
        return remat_pass_nothing(graph, out);
    struct remat_rebuild r = remat_rebuild_begin(arena, graph);
    for (uint32_t n = 0; n <= count; n++) {
        for (uint32_t m = first[n]; !remat_is_none(m); m = next[m])
            copy_deferred(&r, m);
        if (n < count && d.place[n] == n)
            remat_rebuild_copy(&r, (remat_node){n});
    }
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
