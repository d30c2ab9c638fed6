/* SPDX-License-Identifier: Apache-2.0 */
/* The op table, and inference from a row: arity, attribute keys and kinds, the row's own shape
 * rule, sizes. */
#include "family.h"

#include <math.h>

#define remat_derive_none NULL
#define remat_expand_none NULL

enum {
    COMPOSITE = REMAT_FACT_COMPOSITE,
    POINTWISE = REMAT_FACT_POINTWISE,
    ROW_REDUCE = REMAT_FACT_ROW_REDUCE,
    COLUMN_REDUCE = REMAT_FACT_COLUMN_REDUCE,
    VIEW = REMAT_FACT_VIEW,
    NAMED = REMAT_FACT_NAMED,
    IN_PLACE = REMAT_FACT_IN_PLACE,
    COMPUTE_HEAVY = REMAT_FACT_COMPUTE_HEAVY,
    RANDOM = REMAT_FACT_RANDOM,
    STATEFUL = REMAT_FACT_STATEFUL,
};

static const struct remat_op_info table[REMAT_OP_COUNT] = {
#define OP(name, facts, inputs_min, inputs_max, outputs, executor, attributes, shape, flops,       \
           derive, expand)                                                                         \
    {#name,                                                                                        \
     facts,                                                                                        \
     inputs_min,                                                                                   \
     inputs_max,                                                                                   \
     outputs,                                                                                      \
     (uint16_t)REMAT_##executor,                                                                   \
     attributes,                                                                                   \
     remat_shape_##shape,                                                                          \
     remat_flops_##flops,                                                                          \
     remat_derive_##derive,                                                                        \
     remat_expand_##expand},
#include "ops.def"
#undef OP
};

const struct remat_op_info *remat_op_info(uint16_t op)
{
    return &table[op];
}

bool remat_op_find(const char *name, size_t length, uint16_t *out)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++)
        if (strlen(table[op].name) == length && memcmp(table[op].name, name, length) == 0) {
            *out = op;
            return true;
        }
    return false;
}

bool remat_op_has(uint16_t op, uint32_t facts)
{
    return (table[op].facts & facts) != 0;
}

bool remat_op_recomputable(uint16_t op)
{
    return !remat_op_has(op, REMAT_FACT_IN_PLACE | REMAT_FACT_STATEFUL | REMAT_FACT_COLLECTIVE);
}

/* The kind of every key that is not an integer; a key means the same in all ops. */
static const struct {
    const char *key;
    uint8_t kind;
} kinds[] = {
    {"shape", REMAT_ATTRIBUTE_INTS},    {"permutation", REMAT_ATTRIBUTE_INTS},
    {"value", REMAT_ATTRIBUTE_FLOAT},   {"scale", REMAT_ATTRIBUTE_FLOAT},
    {"epsilon", REMAT_ATTRIBUTE_FLOAT}, {"beta1", REMAT_ATTRIBUTE_FLOAT},
    {"beta2", REMAT_ATTRIBUTE_FLOAT},   {"weight_decay", REMAT_ATTRIBUTE_FLOAT},
    {"theta", REMAT_ATTRIBUTE_FLOAT},   {"factor", REMAT_ATTRIBUTE_FLOAT},
    {"low", REMAT_ATTRIBUTE_FLOAT},     {"high", REMAT_ATTRIBUTE_FLOAT},
    {"p", REMAT_ATTRIBUTE_FLOAT},
};

static uint8_t attribute_kind(const char *key)
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (strcmp(kinds[k].key, key) == 0)
            return kinds[k].kind;
    return REMAT_ATTRIBUTE_INT;
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    while (*words) {
        size_t next = strcspn(words, " ");
        if (next == length && memcmp(words, word, length) == 0)
            return true;
        words += next + (words[next] == ' ');
    }
    return false;
}

static remat_status check_attribute(remat_context *ctx, const struct remat_node_info *node,
                                    uint32_t a)
{
    static const char *const kind_names[] = {"an integer", "a number", "a list of integers"};
    const struct remat_attribute *attribute = &node->attributes[a];
    const char *key = attribute->key;
    if (!has_word(table[node->op].attributes, key))
        return remat_error(ctx, REMAT_ERROR_INVALID, "unknown attribute \"%s\"", key);
    if (attribute->kind != attribute_kind(key))
        return remat_error(ctx, REMAT_ERROR_INVALID, "attribute \"%s\" must be %s", key,
                           kind_names[attribute_kind(key)]);
    bool infinite = node->op == REMAT_OP_constant && isinf(attribute->f);
    if (attribute->kind == REMAT_ATTRIBUTE_FLOAT && !isfinite(attribute->f) && !infinite)
        return remat_error(ctx, REMAT_ERROR_INVALID, "attribute \"%s\" is not finite", key);
    if (remat_node_attribute(node, key) != attribute)
        return remat_error(ctx, REMAT_ERROR_INVALID, "attribute \"%s\" is given twice", key);
    return REMAT_OK;
}

static remat_status check_arity(remat_context *ctx, const struct remat_node_info *node)
{
    const struct remat_op_info *op = &table[node->op];
    if (node->input_count < op->inputs_min || node->input_count > op->inputs_max) {
        if (op->inputs_min == op->inputs_max)
            return remat_error(ctx, REMAT_ERROR_INVALID, "%u inputs, expected %u",
                               node->input_count, op->inputs_min);
        return remat_error(ctx, REMAT_ERROR_INVALID, "%u inputs, expected %u to %u",
                           node->input_count, op->inputs_min, op->inputs_max);
    }
    if (node->output_count != op->outputs)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%u outputs, expected %u", node->output_count,
                           op->outputs);
    return REMAT_OK;
}

/* Sizes in bytes fit 63 bits. */
static remat_status check_size(remat_context *ctx, const struct remat_value_info *value)
{
    uint64_t bytes = remat_dtype_bytes(value->dtype);
    for (uint32_t d = 0; d < value->shape.rank; d++)
        if (!remat_mul_u64(bytes, (uint64_t)value->shape.dims[d], &bytes) || bytes > INT64_MAX) {
            char text[REMAT_SHAPE_TEXT];
            return remat_error(ctx, REMAT_ERROR_INVALID, "the result's shape %s is too large",
                               remat_shape_text(&value->shape, text));
        }
    return REMAT_OK;
}

remat_status remat_op_infer(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_node_info *node, struct remat_value_info *outputs)
{
    remat_status st = REMAT_OK;
    if (node->op >= REMAT_OP_COUNT)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "no op has the number %u", node->op);
    REMAT_TRY(check_arity(ctx, node));
    for (uint32_t a = 0; a < node->attribute_count; a++)
        REMAT_TRY(check_attribute(ctx, node, a));
    memset(outputs, 0, node->output_count * sizeof *outputs);
    REMAT_TRY(table[node->op].shape(ctx, graph, node, outputs));
    for (uint32_t k = 0; k < node->output_count; k++)
        REMAT_TRY(check_size(ctx, &outputs[k]));
fail:
    return st;
}

remat_value remat_state_of(const struct remat_graph *graph, remat_value value)
{
    remat_value first = value;
    for (;;) {
        const struct remat_value_info *info = &graph->values[first.i];
        if (info->node == REMAT_NONE)
            return first;
        if (!remat_op_has(graph->nodes[info->node].op, REMAT_FACT_IN_PLACE))
            return value;
        first = graph->nodes[info->node].inputs[info->result];
    }
}

remat_value remat_storage_root(const struct remat_graph *graph, remat_value value)
{
    for (;;) {
        uint32_t node = graph->values[value.i].node;
        if (node == REMAT_NONE || !remat_op_has(graph->nodes[node].op, REMAT_FACT_VIEW))
            return value;
        value = graph->nodes[node].inputs[0];
    }
}
