/* SPDX-License-Identifier: Apache-2.0 */
/* A forward node that no other forward node needs would be fused and priced as one that runs in any
 * case, but a clone for the backward pass would leave it nothing to do. Nodes in reverse meet
 * readers first, so that a chain of such nodes is deferred as a whole. */
#include "rebuild.h"

struct deferral {
    const struct remat_graph *graph;
    bool *stays;          /* by value: an output, or the forward pass or the loss reads it */
    remat_node *used_at;  /* by value: the node that its first user comes before, or is */
    remat_node *replaced; /* by value: the node that replaces it in place */
    remat_node *place;    /* by node: a deferred one comes before this node, others are at it */
};

static bool is_deferred(const struct deferral *d, const struct remat_node_info *node)
{
    if (node->phase != REMAT_PHASE_FORWARD || !remat_op_recomputable(node->op))
        return false;
    for (uint32_t k = 0; k < node->output_count; k++)
        if (d->stays[node->outputs[k].i])
            return false;
    return true;
}

static void keep_least(remat_node *least, remat_node n)
{
    if (n.i < least->i)
        *least = n;
}

/* A node comes before all that use it, and before what replaces a state that it reads. */
static remat_node find_place(const struct deferral *d, const struct remat_node_info *node)
{
    remat_node place = {d->graph->node_count};
    for (uint32_t k = 0; k < node->output_count; k++)
        keep_least(&place, d->used_at[node->outputs[k].i]);
    for (uint32_t k = 0; k < remat_op_reads(node); k++)
        keep_least(&place, d->replaced[remat_storage_root(d->graph, node->inputs[k]).i]);
    return place;
}

static void visit(struct deferral *d, remat_node n)
{
    const struct remat_node_info *node = &d->graph->nodes[n.i];
    bool deferred = is_deferred(d, node);
    d->place[n.i] = deferred ? find_place(d, node) : n;
    for (uint32_t k = 0; k < remat_op_reads(node); k++)
        d->stays[node->inputs[k].i] |= remat_in_forward_pass(node->phase) && !deferred;
    for (uint32_t k = 0; k < node->input_count; k++)
        keep_least(&d->used_at[node->inputs[k].i], d->place[n.i]);
    if (remat_op_has(node->op, REMAT_FACT_IN_PLACE) && node->phase != REMAT_PHASE_OPTIMIZER)
        for (uint32_t k = 0; k < node->output_count; k++)
            d->replaced[remat_storage_root(d->graph, node->inputs[k]).i] = n;
}

static void copy_deferred(struct remat_rebuild *r, remat_node n)
{
    remat_rebuild_copy(r, n);
    r->to->nodes[r->to->node_count - 1].phase = REMAT_PHASE_BACKWARD;
}

REMAT_PASS(defer)
{
    struct deferral d = {.graph = graph, .stays = remat_find_kept(arena, graph)};
    uint32_t count = graph->node_count;
    remat_node *first, *next; /* lists of deferred nodes, by place */
    bool any = false;
    REMAT_NEW(arena, d.used_at, graph->value_count);
    REMAT_NEW(arena, d.replaced, graph->value_count);
    REMAT_NEW(arena, d.place, count);
    REMAT_NEW(arena, first, count + 1);
    REMAT_NEW(arena, next, count);
    memset(d.used_at, 0xff, graph->value_count * sizeof *d.used_at);
    memset(d.replaced, 0xff, graph->value_count * sizeof *d.replaced);
    memset(first, 0xff, (count + 1) * sizeof *first);
    for (remat_node n = {count}; n.i-- > 0;) {
        visit(&d, n);
        if (d.place[n.i].i != n.i) {
            any = true;
            next[n.i] = first[d.place[n.i].i];
            first[d.place[n.i].i] = n;
        }
    }
    if (!any)
        return remat_pass_nothing(graph, out);
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    for (remat_node n = {0}; n.i <= count; n.i++) {
        for (remat_node m = first[n.i]; !remat_is_none(m.i); m = next[m.i])
            copy_deferred(&r, m);
        if (n.i < count && d.place[n.i].i == n.i)
            remat_rebuild_copy(&r, n);
    }
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
