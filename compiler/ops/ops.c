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

/* --- optional operands --- */

/* Operand `number` of the signature, which begins with its name if it has one; NULL: the signature
 * does not tell it. */
static const char *find_signed(uint16_t op, uint32_t number)
{
    const char *text = remat_op_info(op)->signature;
    for (; *text != '-' && number > 0; number--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return *text == '-' ? NULL : text;
}

bool remat_op_optional(uint16_t op, uint32_t number)
{
    const char *text = find_signed(op, number);
    return text && text[strcspn(text, " ") - 1] == '?';
}

const char *remat_op_operand_name(uint16_t op, uint32_t number, int *length)
{
    const char *text = find_signed(op, number);
    assert(text);
    *length = (int)strcspn(text, ":");
    return text;
}

uint32_t remat_op_find_operand(uint16_t op, const char *name, size_t length)
{
    for (uint32_t number = 0; number < remat_op_info(op)->inputs_max; number++) {
        int own;
        if (!remat_op_optional(op, number))
            continue;
        const char *text = remat_op_operand_name(op, number, &own);
        if ((size_t)own == length && memcmp(text, name, length) == 0)
            return number;
    }
    return REMAT_NONE;
}

uint32_t remat_node_operand(const struct remat_node_info *node, const char *name)
{
    uint32_t number = remat_op_find_operand(node->op, name, strlen(name));
    assert(number != REMAT_NONE);
    return remat_operand_position(node->absent, node->input_count, number);
}

uint32_t remat_op_inputs_before_results(const struct remat_node_info *node)
{
    uint32_t count = node->input_count;
    while (count > 0 && remat_op_optional(node->op, remat_operand_number(node->absent, count - 1)))
        count--;
    return count;
}
