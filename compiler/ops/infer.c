/* SPDX-License-Identifier: Apache-2.0 */
/* Inference from a row of the op table: arity, attribute keys and kinds, the signature, the row's
 * own shape rule, sizes. */
#include "family.h"
#include "lengths.h"
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

static remat_status check_absent(remat_context *ctx, const struct remat_node_info *node)
{
    uint32_t last = remat_operand_number(node->absent, node->input_count - 1);
    for (uint32_t k = 0; node->absent && k < 32; k++)
        if ((node->absent >> k & 1) && (k >= last || !remat_op_optional(node->op, k)))
            return INVALID(ctx, "operand %u is absent, which is not optional or follows the last",
                           k);
    return node->absent && last >= remat_op_table[node->op].inputs_max
               ? INVALID(ctx, "%u inputs are too many beside absent ones", node->input_count)
               : REMAT_OK;
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
    return check_absent(ctx, node);
}

/* --- signatures --- */

struct signature { /* what is left of a row's, and what it stands for so far */
    const char *rest;
    remat_dtype dtype; /* of e and =; 0: not known yet */
    struct remat_lengths lengths;
};

/* An operand without its name. */
static const char *type_of(const char *operand)
{
    size_t length = strcspn(operand, ": ");
    return operand[length] == ':' ? operand + length + 1 : operand;
}

static remat_dtype dtype_of(const struct signature *s, remat_dtype given)
{
    switch (*type_of(s->rest)) {
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

/* The shape that the brackets say. */
static struct remat_shape shape_of(struct signature *s, const struct remat_shape *given)
{
    struct remat_shape shape = {0};
    shape.rank = remat_lengths_expected(&s->lengths, type_of(s->rest) + 2, given ? given->rank : 0,
                                        given ? given->dims : NULL, shape.dims);
    assert(shape.rank <= REMAT_RANK_MAX);
    return shape;
}

static remat_status check_operand(remat_context *ctx, struct signature *s,
                                  const struct remat_graph *graph,
                                  const struct remat_node_info *node, uint32_t k)
{
    const struct remat_value_info *value = remat_input(graph, node, k);
    const char *type = type_of(s->rest);
    bool shaped = type[1] == '[';
    struct remat_axes axes = shaped ? remat_lengths_axes(type + 2) : (struct remat_axes){0, true};
    if (*type == 'e' && !s->dtype)
        REMAT_CHECK(remat_check_computed(ctx, graph, node, k));
    remat_dtype dtype = dtype_of(s, value->dtype);
    if (*type == 'e' || *type == '=')
        s->dtype = dtype;
    REMAT_CHECK(remat_check_input(ctx, graph, node, k, dtype, axes.axes,
                                  axes.leads ? REMAT_ANY_RANK : axes.axes));
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
    for (uint32_t number = 0, k = 0; *s.rest != '-'; number++, next_operand(&s))
        if (k < node->input_count && remat_operand_number(node->absent, k) == number)
            REMAT_CHECK(check_operand(ctx, &s, graph, node, k++));
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
