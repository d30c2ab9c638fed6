/* SPDX-License-Identifier: Apache-2.0 */
/* What a step in parts does with its outputs. A mean over the batch is the mean of the parts'
 * means, as parts are equal. A sum is the sum of theirs. A mean over the targets that count is
 * neither: parts have other counts. It becomes a sum over the count of the whole batch, which is a
 * graph input here; the pass microbatches computes it. */
#include "builder.h"
#include "mesh.h"
#include "rebuild.h"

/* --- counts --- */

/* The batched input that targets are of, or slices of it along other axes; none: something else.
 * The shape does not matter. */
static remat_value find_ids(const struct remat_graph *graph, remat_value targets)
{
    const struct remat_node_info *node = remat_producer_info(graph, targets);
    while (node && node->op == REMAT_OP_reshape) {
        targets = node->inputs[0];
        node = remat_producer_info(graph, targets);
    }
    remat_value root = targets;
    while (node && node->op == REMAT_OP_slice && remat_node_int(node, "axis", 0) > 0) {
        root = node->inputs[0];
        node = remat_producer_info(graph, root);
    }
    return graph->values[root.i].batched ? targets : REMAT_NO_VALUE;
}

static bool lacks_count(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_cross_entropy && remat_node_attribute(node, "ignore_index") &&
           remat_is_none(remat_node_operand(node, "count"));
}

static remat_status refuse(remat_context *ctx, const struct remat_graph *graph, remat_value output,
                           remat_node node, const char *why)
{
    char where[320] = "";
    if (!remat_is_none(node.i))
        snprintf(where, sizeof where, "node \"%.200s\" (%s) ",
                 graph->values[graph->nodes[node.i].outputs[0].i].name,
                 remat_op_info(graph->nodes[node.i].op)->name);
    return remat_error(
        ctx, REMAT_ERROR_INVALID,
        "output \"%.200s\": %s%s, so a step has one microbatch, and one rank along dp",
        graph->values[output.i].name, where, why);
}

static remat_status give_count(struct remat_rebuild *r, remat_node n)
{
    struct remat_counted *counted;
    const struct remat_node_info *node = &r->from->nodes[n.i];
    const char *name = r->from->values[node->outputs[0].i].name;
    struct remat_builder b = {.arena = r->arena, .graph = r->to};
    REMAT_NEW(r->arena, counted, 1);
    *counted = (struct remat_counted){.graph = r->from,
                                      .ids = find_ids(r->from, node->inputs[1]),
                                      .ignored = remat_node_int(node, "ignore_index", 0)};
    if (remat_is_none(counted->ids.i))
        return refuse(r->arena->ctx, r->from, node->outputs[0], n,
                      "counts targets that are computed");
    remat_value count = remat_add_input(&b, REMAT_FORMAT(r->arena, "%s.count", name), REMAT_F32,
                                        (struct remat_shape){1, {1}}, REMAT_ROLE_STEP_STATE);
    r->to->values[count.i].counted = counted;
    remat_rebuild_copy(r, n);
    struct remat_node_info *to = &r->to->nodes[r->to->node_count - 1];
    remat_value *inputs;
    REMAT_NEW(r->arena, inputs, 3);
    memcpy(inputs, to->inputs, 2 * sizeof *inputs);
    inputs[2] = count;
    to->inputs = inputs;
    to->input_count = 3;
    return REMAT_OK;
}

static bool lacks_counts(const struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (lacks_count(&graph->nodes[n]))
            return true;
    return false;
}

static remat_status give_counts(struct remat_arena *arena, const struct remat_graph *graph,
                                struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 2);
    for (remat_node n = {0}; n.i < graph->node_count && st == REMAT_OK; n.i++)
        if (lacks_count(&graph->nodes[n.i]))
            st = give_count(&r, n);
        else
            remat_rebuild_copy(&r, n);
    *out = remat_rebuild_finish(&r);
    return st;
}

/* --- outputs --- */

/* The derivative of a joint graph counts for itself. */
static remat_status check_joint(remat_context *ctx, const struct remat_graph *graph)
{
    bool joint = false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        joint |= graph->values[v].role == REMAT_ROLE_GRADIENT;
    for (remat_node n = {0}; n.i < graph->node_count && joint; n.i++)
        if (lacks_count(&graph->nodes[n.i]))
            return refuse(ctx, graph, graph->nodes[n.i].outputs[0], n,
                          "counts its targets, and so does its derivative, which is given");
    return REMAT_OK;
}

static remat_status find_summed(struct remat_arena *arena, const struct remat_graph *graph,
                                bool *summed)
{
    struct remat_batch_fact *facts = remat_find_batch(arena, graph);
    for (uint32_t o = 0; o < graph->output_count; o++) {
        remat_value output = graph->outputs[o];
        struct remat_batch_fact fact = facts[output.i];
        summed[o] = fact.kind == REMAT_BATCH_SUM;
        if (fact.kind == REMAT_BATCH_ENTRIES)
            return refuse(arena->ctx, graph, output, graph->values[output.i].node,
                          "has an element for each entry of the batch");
        if (fact.kind == REMAT_BATCH_MIXED)
            return refuse(arena->ctx, graph, output, fact.mixed,
                          remat_is_none(fact.mixed.i)
                              ? "the graph is valid with a batch of 1 only"
                              : "makes something of several entries of the batch");
    }
    return REMAT_OK;
}

REMAT_PASS(losses)
{
    bool *summed;
    uint32_t ranks = remat_mesh_size(&graph->mesh, "dp");
    if ((settings->microbatches < 2 && ranks == 1) || graph->node_count == 0)
        return remat_pass_nothing(graph, out);
    REMAT_NEW(arena, summed, graph->output_count);
    REMAT_CHECK(find_summed(arena, graph, summed));
    REMAT_CHECK(check_joint(arena->ctx, graph));
    if (lacks_counts(graph))
        REMAT_CHECK(give_counts(arena, graph, out));
    else
        *out = remat_graph_copy(arena, graph, 1);
    (*out)->summed = summed;
    return REMAT_OK;
}
