/* SPDX-License-Identifier: Apache-2.0 */
/* Merges a node with an earlier equal one: same op, inputs, attributes, scope and phase. Nodes of
 * different scopes stay apart, so that equal layers stay equal and none holds another's values
 * alive. Pointwise nodes with operands are left alone: doing them twice costs nothing inside a
 * kernel, while a shared result would have to be stored for the second kernel that reads it. */
#include "index.h"
#include "ops.h"
#include "rebuild.h"

static bool may_merge(const struct remat_node_info *node)
{
    if (node->instance > 0 ||
        remat_op_has(node->op, REMAT_FACT_RANDOM | REMAT_FACT_STATEFUL | REMAT_FACT_IN_PLACE |
                                   REMAT_FACT_COLLECTIVE))
        return false;
    if (remat_op_has(node->op, REMAT_FACT_POINTWISE) && node->input_count > 0)
        return false;
    return true;
}

/* Whether something besides nodes knows the node's results by name. */
static bool is_visible(const struct remat_graph *graph, const struct remat_node_info *node,
                       const bool *named)
{
    for (uint32_t k = 0; k < node->output_count; k++) {
        const struct remat_value_info *value = &graph->values[node->outputs[k].i];
        if (named[node->outputs[k].i] || value->role != REMAT_ROLE_ACTIVATION ||
            value->pin != REMAT_PIN_NONE)
            return true;
    }
    return false;
}

static bool equal_attributes(const struct remat_node_info *a, const struct remat_node_info *b)
{
    if (a->attribute_count != b->attribute_count)
        return false;
    for (uint32_t k = 0; k < a->attribute_count; k++) {
        const struct remat_attribute *x = &a->attributes[k];
        const struct remat_attribute *y = remat_node_attribute(b, x->key);
        if (!y || !remat_attribute_equal(x, y))
            return false;
    }
    return true;
}

static bool equal_nodes(const struct remat_rebuild *r, const struct remat_node_info *a,
                        const struct remat_node_info *b)
{
    if (a->op != b->op || a->scope.i != b->scope.i || a->phase != b->phase ||
        a->input_count != b->input_count || a->absent != b->absent || !equal_attributes(a, b))
        return false;
    for (uint32_t k = 0; k < a->input_count; k++)
        if (r->values[a->inputs[k].i].i != r->values[b->inputs[k].i].i)
            return false;
    return true;
}

static uint64_t hash_node(const struct remat_rebuild *r, const struct remat_node_info *node)
{
    const uint32_t head[] = {node->op, node->scope.i, node->phase};
    uint64_t h = remat_hash(head, sizeof head, 0);
    for (uint32_t k = 0; k < node->input_count; k++) {
        uint32_t input = r->values[node->inputs[k].i].i;
        h = remat_hash(&input, sizeof input, h);
    }
    for (uint32_t k = 0; k < node->attribute_count; k++) /* in any order */
        h += remat_hash_string(node->attributes[k].key, (uint64_t)node->attributes[k].i);
    return h;
}

/* The earlier equal node; else none, and the node is in the index. */
static remat_node find_or_add(const struct remat_rebuild *r, struct remat_index *index,
                              remat_node n)
{
    const struct remat_node_info *nodes = r->from->nodes;
    uint64_t hash = hash_node(r, &nodes[n.i]);
    remat_node equal;
    for (size_t at = 0; (equal.i = remat_index_find(index, hash, &at)) != REMAT_NONE;)
        if (equal_nodes(r, &nodes[equal.i], &nodes[n.i]))
            return equal;
    remat_index_add(r->arena, index, hash, n.i);
    return REMAT_NO_NODE;
}

REMAT_PASS(eliminate_common)
{
    struct remat_index index = {0};
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    const bool *named = remat_find_kept(arena, graph);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++) {
        const struct remat_node_info *node = &graph->nodes[n.i];
        remat_node equal = REMAT_NO_NODE;
        if (may_merge(node) && !is_visible(graph, node, named))
            equal = find_or_add(&r, &index, n);
        if (remat_is_none(equal.i))
            remat_rebuild_copy(&r, n);
        else
            for (uint32_t k = 0; k < node->output_count; k++)
                r.values[node->outputs[k].i] = r.values[graph->nodes[equal.i].outputs[k].i];
    }
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
