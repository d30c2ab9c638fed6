/* SPDX-License-Identifier: Apache-2.0 */
/* Inference from a row of the op table: arity, attribute keys and kinds, the signature, the row's
 * own shape rule, sizes. */
#include "family.h"
#include "range.h"

#include <assert.h>
#include <math.h>

#define KEY_BYTES 32 /* of an attribute's key */

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
    const char *list = remat_op_table[node->op].attributes;
    const struct remat_range range = remat_range_of(attribute->key);
    char name[KEY_BYTES];
    bool found = false, required;
    while (!found && next_key(&list, name, &required))
        found = strcmp(name, range.key) == 0;
    if (!found)
        return INVALID(ctx, "unknown attribute \"%s\"", range.key);
    if (attribute->kind != range.kind)
        return INVALID(ctx, "attribute \"%s\" must be %s", range.key, kind_names[range.kind]);
    double number = remat_attribute_number(attribute);
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
    const char *list = remat_op_table[node->op].attributes;
    char name[KEY_BYTES];
    bool required;
    while (next_key(&list, name, &required))
        if (required && !remat_node_attribute(node, name))
            return INVALID(ctx, "attribute \"%s\" is missing", name);
    return REMAT_OK;
}

static remat_status check_arity(remat_context *ctx, const struct remat_node_info *node)
{
    const struct remat_op_info *op = &remat_op_table[node->op];
    if (node->input_count < op->inputs_min || node->input_count > op->inputs_max) {
        if (op->inputs_min == op->inputs_max)
            return INVALID(ctx, "%u inputs, expected %u", node->input_count, op->inputs_min);
        return INVALID(ctx, "%u inputs, expected %u to %u", node->input_count, op->inputs_min,
                       op->inputs_max);
    }
    if (op->outputs ? node->output_count != op->outputs : node->output_count == 0)
        return INVALID(ctx, "%u outputs, expected %s%u", node->output_count,
                       op->outputs ? "" : "at least ", op->outputs ? op->outputs : 1u);
    return REMAT_OK;
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
    const struct remat_op_info *op = &remat_op_table[node->op];
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
    memset(outputs, 0, node->output_count * sizeof *outputs);
    REMAT_CHECK(check_arity(ctx, node));
    REMAT_CHECK(check_attributes(ctx, node));
    REMAT_CHECK(infer(ctx, graph, node, outputs));
    for (uint32_t k = 0; k < node->output_count; k++)
        if (!remat_shape_fits(&outputs[k].shape, outputs[k].dtype))
            return INVALID(ctx, "the result's shape %s is too large",
                           SHAPE_TEXT(&outputs[k].shape));
    return REMAT_OK;
}
