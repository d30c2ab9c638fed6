/* SPDX-License-Identifier: Apache-2.0 */
/* The op table, and inference from a row: arity, attribute keys and kinds, the row's own shape
 * rule, sizes. */
#include "ops.h"

#include "family.h"
#include "range.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#define KEY_BYTES 32 /* of an attribute's key */

#define remat_shape_none  NULL
#define remat_derive_none NULL
#define remat_expand_none NULL

enum {
    COMPOSITE = REMAT_FACT_COMPOSITE,
    POINTWISE = REMAT_FACT_POINTWISE,
    ROW_REDUCE = REMAT_FACT_ROW_REDUCE,
    COLUMN_REDUCE = REMAT_FACT_COLUMN_REDUCE,
    VIEW = REMAT_FACT_VIEW,
    BUILTIN = REMAT_FACT_BUILTIN,
    IN_PLACE = REMAT_FACT_IN_PLACE,
    COMPUTE_HEAVY = REMAT_FACT_COMPUTE_HEAVY,
    RANDOM = REMAT_FACT_RANDOM,
    STATEFUL = REMAT_FACT_STATEFUL,
    COLLECTIVE = REMAT_FACT_COLLECTIVE,
};

static const struct remat_op_info table[REMAT_OP_COUNT] = {
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand, layout)                                                          \
    {#name,                                                                                        \
     facts,                                                                                        \
     inputs_min,                                                                                   \
     inputs_max,                                                                                   \
     outputs,                                                                                      \
     signature,                                                                                    \
     (uint16_t)REMAT_##executor,                                                                   \
     attributes,                                                                                   \
     remat_shape_##shape,                                                                          \
     remat_flops_##flops,                                                                          \
     remat_derive_##derive,                                                                        \
     remat_expand_##expand,                                                                        \
     REMAT_RULE_##layout},
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

static const char *name_of(const void *user, uint32_t op)
{
    (void)user;
    return table[op].name;
}

struct remat_suggestion remat_op_suggest(const char *name)
{
    return remat_suggest("", name, name_of, NULL, REMAT_OP_COUNT);
}

bool remat_op_has(uint16_t op, uint32_t facts)
{
    return (table[op].facts & facts) != 0;
}

bool remat_op_recomputable(uint16_t op)
{
    return !remat_op_has(op, REMAT_FACT_IN_PLACE | REMAT_FACT_STATEFUL);
}

static double number_of(const struct remat_attribute *a)
{
    return a->kind == REMAT_ATTRIBUTE_INT ? (double)a->i : a->f;
}

double remat_node_number(const struct remat_node_info *node, const char *key)
{
    const struct remat_attribute *a = remat_node_attribute(node, key);
    return a ? number_of(a) : remat_range_of(key).absent;
}

/* Takes the next key off a row's list; false at its end. */
static bool next_key(const char **list, char name[KEY_BYTES], bool *out_required)
{
    size_t length = 0;
    for (; **list && **list != ' ' && **list != '?'; ++*list)
        name[length++] = **list;
    name[length] = 0;
    *out_required = **list != '?';
    while (**list == '?' || **list == ' ')
        ++*list;
    return length > 0;
}

static remat_status check_attribute(remat_context *ctx, const struct remat_node_info *node,
                                    const struct remat_attribute *attribute)
{
    static const char *const kind_names[] = {"an integer", "a number", "a list of integers"};
    const char *list = table[node->op].attributes;
    const struct remat_range range = remat_range_of(attribute->key);
    char name[KEY_BYTES];
    bool found = false, required;
    while (!found && next_key(&list, name, &required))
        found = strcmp(name, range.key) == 0;
    if (!found)
        return INVALID(ctx, "unknown attribute \"%s\"", range.key);
    if (attribute->kind != range.kind)
        return INVALID(ctx, "attribute \"%s\" must be %s", range.key, kind_names[range.kind]);
    double number = number_of(attribute);
    if (isnan(number))
        return INVALID(ctx, "attribute \"%s\" is not finite", range.key);
    if (attribute->kind != REMAT_ATTRIBUTE_INTS && !remat_range_has(&range, number))
        return INVALID(ctx, "attribute \"%s\" is %.15g, expected %s", range.key, number,
                       remat_range_text(&range).text);
    if (remat_node_attribute(node, range.key) != attribute)
        return INVALID(ctx, "attribute \"%s\" is given twice", range.key);
    return REMAT_OK;
}

static remat_status check_attributes(remat_context *ctx, const struct remat_node_info *node)
{
    for (uint32_t a = 0; a < node->attribute_count; a++)
        REMAT_CHECK(check_attribute(ctx, node, &node->attributes[a]));
    const char *list = table[node->op].attributes;
    char name[KEY_BYTES];
    bool required;
    while (next_key(&list, name, &required))
        if (required && !remat_node_attribute(node, name))
            return INVALID(ctx, "attribute \"%s\" is missing", name);
    return REMAT_OK;
}

static remat_status check_arity(remat_context *ctx, const struct remat_node_info *node)
{
    const struct remat_op_info *op = &table[node->op];
    if (node->input_count < op->inputs_min || node->input_count > op->inputs_max) {
        if (op->inputs_min == op->inputs_max)
            return INVALID(ctx, "%u inputs, expected %u", node->input_count, op->inputs_min);
        return INVALID(ctx, "%u inputs, expected %u to %u", node->input_count, op->inputs_min,
                       op->inputs_max);
    }
    if (node->output_count != op->outputs)
        return INVALID(ctx, "%u outputs, expected %u", node->output_count, op->outputs);
    return REMAT_OK;
}

/* --- checks that several ops share --- */

struct remat_shape_text remat_shape_text(const struct remat_shape *shape)
{
    struct remat_shape_text out = {"["};
    size_t at = 1;
    for (uint32_t d = 0; d < shape->rank && d < REMAT_RANK_MAX; d++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, "%s%lld", d ? ", " : "",
                               (long long)shape->dims[d]);
    snprintf(out.text + at, sizeof out.text - at, "]");
    return out;
}

remat_status remat_check_input(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k, remat_dtype dtype,
                               uint32_t rank_min, uint32_t rank_max)
{
    const struct remat_value_info *value = remat_input(graph, node, k);
    if (value->dtype != dtype)
        return INVALID(ctx, "input %u has type %s, expected %s", k, remat_dtype_name(value->dtype),
                       remat_dtype_name(dtype));
    if (value->shape.rank >= rank_min && value->shape.rank <= rank_max)
        return REMAT_OK;
    return INVALID(ctx, "input %u has shape %s, expected rank %s%u", k, SHAPE_TEXT(&value->shape),
                   rank_min == rank_max ? "" : "at least ", rank_min);
}

remat_status remat_check_computed(remat_context *ctx, const struct remat_graph *graph,
                                  const struct remat_node_info *node, uint32_t k)
{
    remat_dtype dtype = remat_input(graph, node, k)->dtype;
    return remat_dtype_is_computed(dtype) ? REMAT_OK
                                          : INVALID(ctx, "input %u has type %s, expected %s", k,
                                                    remat_dtype_name(dtype), remat_computed_dtypes);
}

remat_status remat_check_shape(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k,
                               const struct remat_shape *expected)
{
    const struct remat_shape *shape = remat_input_shape(graph, node, k);
    if (remat_shape_equal(shape, expected))
        return REMAT_OK;
    return INVALID(ctx, "input %u has shape %s, expected %s", k, SHAPE_TEXT(shape),
                   SHAPE_TEXT(expected));
}

/* --- signatures --- */

struct signature { /* what is left of a row's, and what it stands for so far */
    const char *rest;
    remat_dtype dtype; /* of e and =; 0: not known yet */
    bool led;          /* `leading` is known */
    struct remat_shape leading;
    int64_t lengths['z' + 1]; /* of letters; 0: not known yet */
};

static remat_dtype dtype_of(const struct signature *s, remat_dtype given)
{
    switch (*s->rest) {
    case 'F':
        return REMAT_F32;
    case 'i':
        return REMAT_I32;
    case '.':
        return given;
    default:
        return s->dtype ? s->dtype : given;
    }
}

/* The shape that the brackets say; what is not known yet is as in `given`, which has as many axes
 * as there are letters, at least. */
static struct remat_shape shape_of(struct signature *s, const struct remat_shape *given)
{
    const char *axes = s->rest + 2;
    bool leads = *axes == '*';
    uint32_t own = (uint32_t)strcspn(axes, "]") - leads, at = given ? given->rank - own : 0;
    for (uint32_t d = 0; leads && !s->led && d < at; d++)
        s->leading.dims[s->leading.rank++] = given->dims[d];
    s->led |= leads;
    struct remat_shape shape = leads ? s->leading : (struct remat_shape){0};
    for (axes += leads; *axes != ']'; axes++, at++) {
        int64_t *length = &s->lengths[(int)*axes];
        if (*length == 0)
            *length = *axes <= '9' ? *axes - '0' : given->dims[at];
        shape.dims[shape.rank++] = *length;
    }
    return shape;
}

static remat_status check_operand(remat_context *ctx, struct signature *s,
                                  const struct remat_graph *graph,
                                  const struct remat_node_info *node, uint32_t k)
{
    const struct remat_value_info *value = remat_input(graph, node, k);
    char type = s->rest[0];
    bool shaped = s->rest[1] == '[', leads = shaped && s->rest[2] == '*';
    uint32_t axes = shaped ? (uint32_t)strcspn(s->rest + 2, "]") - leads : 0;
    if (type == 'e' && !s->dtype)
        REMAT_CHECK(remat_check_computed(ctx, graph, node, k));
    remat_dtype dtype = dtype_of(s, value->dtype);
    if (type == 'e' || type == '=')
        s->dtype = dtype;
    REMAT_CHECK(remat_check_input(ctx, graph, node, k, dtype, axes,
                                  shaped && !leads ? axes : REMAT_ANY_RANK));
    if (!shaped)
        return REMAT_OK;
    struct remat_shape expected = shape_of(s, &value->shape);
    return remat_check_shape(ctx, graph, node, k, &expected);
}

/* The next operand; those that are left out too come before "->". */
static void next_operand(struct signature *s)
{
    s->rest += strcspn(s->rest, " ");
    s->rest += strspn(s->rest, " ");
}

static remat_status infer(remat_context *ctx, const struct remat_graph *graph,
                          const struct remat_node_info *node, struct remat_value_info *outputs)
{
    const struct remat_op_info *op = &table[node->op];
    struct signature s = {.rest = op->signature};
    for (uint32_t k = 0; *s.rest != '-'; k++, next_operand(&s))
        if (k < node->input_count)
            REMAT_CHECK(check_operand(ctx, &s, graph, node, k));
    if (op->shape)
        REMAT_CHECK(op->shape(ctx, graph, node, outputs));
    next_operand(&s);
    for (uint32_t k = 0; *s.rest; k++, next_operand(&s))
        outputs[k] = remat_typed(dtype_of(&s, REMAT_F32), shape_of(&s, NULL));
    return REMAT_OK;
}

remat_status remat_op_infer(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_node_info *node, struct remat_value_info *outputs)
{
    assert(node->output_count == remat_op_info(node->op)->outputs);
    memset(outputs, 0, node->output_count * sizeof *outputs);
    if (node->op >= REMAT_OP_COUNT)
        return INVALID(ctx, "no op has the number %u", node->op);
    REMAT_CHECK(check_arity(ctx, node));
    REMAT_CHECK(check_attributes(ctx, node));
    REMAT_CHECK(infer(ctx, graph, node, outputs));
    for (uint32_t k = 0; k < node->output_count; k++)
        if (!remat_shape_fits(&outputs[k].shape, outputs[k].dtype))
            return INVALID(ctx, "the result's shape %s is too large",
                           SHAPE_TEXT(&outputs[k].shape));
    return REMAT_OK;
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
