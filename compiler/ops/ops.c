/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of ops from their rows. */
#include "ops.h"

#include "range.h"

bool remat_op_find(const char *name, size_t length, uint16_t *out)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++)
        if (strlen(remat_op_table[op].name) == length &&
            memcmp(remat_op_table[op].name, name, length) == 0) {
            *out = op;
            return true;
        }
    return false;
}

static const char *name_of(const void *user, uint32_t op)
{
    (void)user;
    return remat_op_table[op].name;
}

struct remat_suggestion remat_op_suggest(const char *name)
{
    return remat_suggest("", name, name_of, NULL, REMAT_OP_COUNT);
}

bool remat_op_recomputable(uint16_t op)
{
    return !remat_op_has(op, REMAT_FACT_IN_PLACE | REMAT_FACT_STATEFUL);
}

remat_node remat_find_foreign(const struct remat_graph *graph)
{
    remat_node n = {0};
    while (n.i < graph->node_count && (graph->nodes[n.i].op >= REMAT_OP_COUNT ||
                                       !remat_op_has(graph->nodes[n.i].op, REMAT_FACT_FOREIGN)))
        n.i++;
    return n.i < graph->node_count ? n : REMAT_NO_NODE;
}

double remat_attribute_number(const struct remat_attribute *a)
{
    return a->kind == REMAT_ATTRIBUTE_INT ? (double)a->i : a->f;
}

double remat_node_number(const struct remat_node_info *node, const char *key)
{
    const struct remat_attribute *a = remat_node_attribute(node, key);
    return a ? remat_attribute_number(a) : remat_range_of(key).absent;
}

remat_value remat_state_of(const struct remat_graph *graph, remat_value value)
{
    remat_value first = value;
    for (;;) {
        const struct remat_node_info *node = remat_producer_info(graph, first);
        if (!node)
            return first;
        if (!remat_op_has(node->op, REMAT_FACT_IN_PLACE))
            return value;
        first = node->inputs[graph->values[first.i].result];
    }
}

remat_value remat_storage_root(const struct remat_graph *graph, remat_value value)
{
    for (;;) {
        const struct remat_node_info *node = remat_producer_info(graph, value);
        if (!node || !remat_op_has(node->op, REMAT_FACT_VIEW))
            return value;
        value = node->inputs[0];
    }
}

uint32_t remat_op_inputs_before_results(const struct remat_node_info *node)
{
    bool drops = (node->op == REMAT_OP_attention && node->input_count > 3) ||
                 (node->op == REMAT_OP_attention_backward && node->input_count > 6);
    return node->input_count - drops;
}
