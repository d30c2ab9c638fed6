/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of an evaluation: without gradients and updates, and without dropout as PyTorch's
 * module.eval() has it. */
#include "rebuild.h"

static bool is_output(const struct remat_graph *graph, remat_value value)
{
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (graph->outputs[o].i == value.i)
            return true;
    return false;
}

static void remove_rng(struct remat_rebuild *r, struct remat_node_info *node, uint32_t rng)
{
    remat_value *inputs;
    uint32_t count = 0, number = remat_operand_number(node->absent, rng);
    REMAT_NEW(r->arena, inputs, node->input_count);
    for (uint32_t k = 0; k < node->input_count; k++)
        if (k != rng)
            inputs[count++] = node->inputs[k];
    if (rng + 1 < node->input_count) /* segments follow */
        node->absent |= 1u << number;
    node->inputs = inputs;
    node->input_count = count;
}

/* Attention without its dropout: all but its random state, p and site. */
static void copy_attention(struct remat_rebuild *r, remat_node n)
{
    struct remat_attribute *kept;
    remat_rebuild_copy(r, n);
    struct remat_node_info *node = &r->to->nodes[r->to->node_count - 1];
    const struct remat_attribute *all = node->attributes;
    uint32_t count = node->attribute_count;
    REMAT_NEW(r->arena, kept, count);
    uint32_t rng = remat_node_operand(node, "rng");
    if (!remat_is_none(rng))
        remove_rng(r, node, rng);
    node->attribute_count = 0;
    node->attributes = kept;
    for (uint32_t a = 0; a < count; a++)
        if (strcmp(all[a].key, "p") != 0 && strcmp(all[a].key, "site") != 0)
            kept[node->attribute_count++] = all[a];
}

REMAT_PASS(forward_only)
{
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++) {
        const struct remat_node_info *node = &graph->nodes[n.i];
        if (node->op == REMAT_OP_attention)
            copy_attention(&r, n);
        else if (node->op == REMAT_OP_dropout && !is_output(graph, node->outputs[0]))
            r.values[node->outputs[0].i] = r.values[node->inputs[0].i];
        else
            remat_rebuild_copy(&r, n);
    }
    struct remat_graph *all = remat_rebuild_finish(&r);
    all->update_count = 0;
    all->optimizer = (struct remat_optimizer){0};
    for (uint32_t v = 0; v < all->value_count; v++)
        if (all->values[v].role == REMAT_ROLE_GRADIENT)
            all->values[v].role = REMAT_ROLE_ACTIVATION;
    return remat_pass_eliminate_dead(arena, all, settings, out);
}
