/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_text.h"

#include "graph_lex.h"
#include "ops.h"
#include "show.h"

#include <math.h>
#include <stdlib.h>

static void print_quoted(struct remat_text *text, const char *name)
{
    remat_text_append(text, "\"");
    for (uint32_t length; *name; name += length ? length : 1) {
        length = remat_printable(name, strnlen(name, 4));
        if (!length)
            remat_text_append(text, "\\x%02x", (unsigned char)*name);
        else
            remat_text_append(text, "%s%.*s", *name == '"' || *name == '\\' ? "\\" : "",
                              (int)length, name);
    }
    remat_text_append(text, "\"");
}

/* Prints the shortest digits that read back as the same double, and a mark of a float. */
static void print_float(struct remat_text *text, double number)
{
    char digits[32];
    if (isnan(number)) {
        remat_text_append(text, "nan");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    remat_text_append(text, "%s%s", digits, strpbrk(digits, ".ei") ? "" : ".0");
}

static void print_int(struct remat_text *text, const struct remat_graph *graph, int64_t number)
{
    if (remat_is_symbol(number) && remat_symbol_index(number) < graph->symbol_count)
        remat_text_append(text, "%s", graph->symbols[remat_symbol_index(number)].name);
    else
        remat_text_append(text, "%lld", (long long)number);
}

static void print_ints(struct remat_text *text, const struct remat_graph *graph,
                       const int64_t *ints, uint32_t count, const char *separator)
{
    remat_text_append(text, "[");
    for (uint32_t k = 0; k < count; k++) {
        remat_text_append(text, "%s", k ? separator : "");
        print_int(text, graph, ints[k]);
    }
    remat_text_append(text, "]");
}

/* --- values --- */

static void print_name(struct remat_text *text, const struct remat_graph *graph, remat_value value)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
    const char *name = graph->values[value.i].name;
    remat_text_append(text, "%%");
    if (name[strspn(name, plain)] == 0)
        remat_text_append(text, "%s", name);
    else
        print_quoted(text, name);
    if (remat_instance(graph, value))
        remat_text_append(text, "@%u", remat_instance(graph, value));
}

static void print_names(struct remat_text *text, const struct remat_graph *graph,
                        const remat_value *values, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        remat_text_append(text, " ");
        print_name(text, graph, values[k]);
    }
}

static void print_type(struct remat_text *text, const struct remat_graph *graph,
                       const struct remat_value_info *value)
{
    remat_text_append(text, " : %s", remat_dtype_name(value->dtype));
    print_ints(text, graph, value->shape.dims, value->shape.rank, ",");
    const struct remat_stated *stated = value->stated;
    if (!stated)
        return;
    remat_text_append(text, " %s(%s", stated->blocks ? "split" : "whole", stated->axis);
    if (stated->blocks)
        remat_text_append(text, ", %u", stated->dimension);
    if (stated->blocks > 1)
        remat_text_append(text, ", %lld", (long long)stated->blocks);
    remat_text_append(text, ")");
}

static void print_pin(struct remat_text *text, const struct remat_value_info *value)
{
    if (value->pin != REMAT_PIN_NONE)
        remat_text_append(text, " pin %s", value->pin == REMAT_PIN_SAVE ? "save" : "recompute");
}

/* The shortest digits that read back as the same f32. */
static void print_f32(struct remat_text *text, float number)
{
    char digits[32];
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)number);
        if ((float)strtod(digits, NULL) == number)
            break;
    }
    remat_text_append(text, "%s%s", digits, strpbrk(digits, ".ei") ? "" : ".0");
}

static void print_data(struct remat_text *text, const struct remat_value_info *info)
{
    int64_t count = remat_shape_elements(&info->shape);
    for (int64_t i = 0; i < count; i++) {
        float number;
        int32_t integer;
        const char *at = (const char *)info->data + (size_t)i * sizeof number;
        memcpy(&number, at, sizeof number);
        memcpy(&integer, at, sizeof integer);
        remat_text_append(text, i ? ", " : " = [");
        if (info->dtype == REMAT_F32)
            print_f32(text, number);
        else
            remat_text_append(text, "%ld", (long)integer);
    }
    remat_text_append(text, "]");
}

static void print_source(struct remat_text *text, const struct remat_graph *graph,
                         remat_value value)
{
    const struct remat_value_info *info = &graph->values[value.i];
    remat_text_append(text, "%s ", remat_lex_role(info->role));
    print_name(text, graph, value);
    print_type(text, graph, info);
    if (info->initializer) {
        bool normal = info->initializer == REMAT_INIT_NORMAL;
        remat_text_append(text, normal ? " = normal(" : " = constant(");
        print_float(text, info->init_mean);
        remat_text_append(text, normal ? ", " : "");
        if (normal)
            print_float(text, info->init_std);
        remat_text_append(text, ")");
    }
    if (info->data)
        print_data(text, info);
    if (info->trainable != (info->role == REMAT_ROLE_PARAMETER))
        remat_text_append(text, info->trainable ? " trainable" : " frozen");
    remat_text_append(text, info->no_decay ? " no_decay" : "");
    if (info->unpadded_rows)
        remat_text_append(text, " unpadded %lld", (long long)info->unpadded_rows);
    print_pin(text, info);
    remat_text_append(text, "\n");
}

static void print_result(struct remat_text *text, const struct remat_graph *graph,
                         remat_value value)
{
    const struct remat_value_info *info = &graph->values[value.i];
    print_name(text, graph, value);
    print_type(text, graph, info);
    if (info->role != REMAT_ROLE_ACTIVATION)
        remat_text_append(text, " %s", remat_lex_role(info->role));
    print_pin(text, info);
}

/* --- nodes --- */

static void print_attribute(struct remat_text *text, const struct remat_graph *graph,
                            const struct remat_attribute *attribute)
{
    remat_text_append(text, "%s = ", attribute->key);
    if (attribute->kind == REMAT_ATTRIBUTE_INT)
        print_int(text, graph, attribute->i);
    else if (attribute->kind == REMAT_ATTRIBUTE_FLOAT)
        print_float(text, attribute->f);
    else
        print_ints(text, graph, attribute->ints, attribute->count, ", ");
}

/* An operand has its name where one before it is absent. */
static void print_inputs(struct remat_text *text, const struct remat_graph *graph,
                         const struct remat_node_info *node)
{
    for (uint32_t k = 0; k < node->input_count; k++) {
        uint32_t number = remat_operand_number(node->absent, k);
        int length;
        if (number != k) {
            const char *name = remat_op_operand_name(node->op, number, &length);
            remat_text_append(text, " %.*s =", length, name);
        }
        print_names(text, graph, &node->inputs[k], 1);
    }
}

static void print_node(struct remat_text *text, const struct remat_graph *graph, remat_node id)
{
    const struct remat_node_info *node = &graph->nodes[id.i];
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_text_append(text, k ? ", " : "");
        print_result(text, graph, node->outputs[k]);
    }
    remat_text_append(text, " = %s", remat_op_info(node->op)->name);
    print_inputs(text, graph, node);
    for (uint32_t a = 0; a < node->attribute_count; a++) {
        remat_text_append(text, a ? ", " : " { ");
        print_attribute(text, graph, &node->attributes[a]);
    }
    remat_text_append(text, "%s phase %s", node->attribute_count ? " }" : "",
                      remat_phase_name(node->phase));
    const char *path = graph->scopes[node->scope.i].path;
    if (*path) {
        remat_text_append(text, " scope ");
        print_quoted(text, path);
    }
    if (node->origin != node->op || node->origin_group != id.i)
        remat_text_append(text, " origin %s group %u", remat_op_info(node->origin)->name,
                          node->origin_group);
    remat_text_append(text, "\n");
}

/* --- the graph --- */

static void print_optimizer(struct remat_text *text, const struct remat_optimizer *optimizer)
{
    uint32_t first = optimizer->kind == REMAT_OPTIMIZER_ADAMW ? 0 : 3;
    if (optimizer->kind == REMAT_OPTIMIZER_NONE)
        return;
    remat_text_append(text, "optimizer %s", remat_optimizer_name(optimizer->kind));
    for (uint32_t k = first; k < 4 + (optimizer->clip_norm > 0); k++) {
        remat_text_append(text, "%s %s = ", k == first ? " {" : ",", remat_optimizer_setting(k));
        print_float(text, optimizer->settings[k]);
    }
    remat_text_append(text, " }%s%s\n", optimizer->no_master ? " no_master" : "",
                      optimizer->bf16_moments ? " bf16_moments" : "");
}

static void print_heading(struct remat_text *text, const struct remat_graph *graph)
{
    remat_text_append(text, "graph ");
    print_quoted(text, graph->name);
    remat_text_append(text, "\n");
    print_optimizer(text, &graph->optimizer);
    for (uint32_t k = 0; k < graph->symbol_count; k++) {
        remat_text_append(text, "symbol %s", graph->symbols[k].name);
        if (graph->symbols[k].value)
            remat_text_append(text, " = %lld", (long long)graph->symbols[k].value);
        remat_text_append(text, "\n");
    }
    remat_text_append(text, "\n");
}

/* Prints the graph inputs among values [begin, end). */
static void print_sources(struct remat_text *text, const struct remat_graph *graph,
                          remat_value begin, remat_value end)
{
    for (remat_value v = begin; v.i < end.i; v.i++)
        if (remat_is_none(remat_producer(graph, v).i))
            print_source(text, graph, v);
}

/* Nodes in order, and each graph input before the first node whose results come after it, so that
 * parsing gives the same value ids. */
static void print_body(struct remat_text *text, const struct remat_graph *graph)
{
    remat_value printed = {0}; /* sources among the values before this one are printed */
    for (remat_node n = {0}; n.i < graph->node_count; n.i++) {
        const struct remat_node_info *node = &graph->nodes[n.i];
        remat_value until = printed;
        for (uint32_t k = 0; k < node->input_count; k++)
            until.i = node->inputs[k].i >= until.i ? node->inputs[k].i + 1 : until.i;
        if (node->output_count && node->outputs[0].i > until.i)
            until = node->outputs[0];
        print_sources(text, graph, printed, until);
        if (n.i == 0)
            remat_text_append(text, "\n");
        printed = until;
        print_node(text, graph, n);
    }
    print_sources(text, graph, printed, (remat_value){graph->value_count});
}

static void print_text(struct remat_text *text, const char *word, const char *quoted)
{
    if (!quoted || !*quoted)
        return;
    remat_text_append(text, "%s ", word);
    print_quoted(text, quoted);
    remat_text_append(text, "\n");
}

static void print_ends(struct remat_text *text, const struct remat_graph *graph)
{
    remat_text_append(text, "\n");
    for (uint32_t k = 0; k < graph->output_count; k++) {
        remat_text_append(text, "output");
        print_names(text, graph, &graph->outputs[k], 1);
        remat_text_append(text, "\n");
    }
    for (uint32_t u = 0; u < graph->update_count; u++) {
        remat_text_append(text, "update");
        print_names(text, graph, &graph->updates[u].state, 1);
        remat_text_append(text, " =");
        print_names(text, graph, &graph->updates[u].value, 1);
        remat_text_append(text, "\n");
    }
    print_text(text, "config", graph->config);
    print_text(text, "plan_only", graph->plan_only);
}

void remat_graph_print(const struct remat_graph *graph, struct remat_text *text)
{
    print_heading(text, graph);
    print_body(text, graph);
    print_ends(text, graph);
    remat_text_complete(text);
}
