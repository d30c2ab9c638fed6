/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of graph text. */
#include "graph_parse.h"
#include "ops.h"

#define RESULTS_MAX 32
#define INPUTS_MAX  255
#define SCOPES_MAX  65536

static remat_status parse_ints(struct parser *p, struct remat_attribute *attribute,
                               int64_t ints[INTS_MAX])
{
    attribute->kind = REMAT_ATTRIBUTE_INTS;
    attribute->ints = ints;
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "["));
    if (remat_lex_accept(&p->lexer, "]"))
        return REMAT_OK;
    do {
        if (attribute->count == INTS_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d integers in a list", INTS_MAX);
        REMAT_CHECK(remat_parse_int(p, REMAT_INTEGER_MIN, "an integer", &ints[attribute->count++]));
    } while (remat_lex_accept(&p->lexer, ","));
    return remat_lex_expect_mark(&p->lexer, "]");
}

static remat_status parse_attribute(struct parser *p, struct remat_attribute *attribute,
                                    int64_t ints[INTS_MAX])
{
    const struct remat_token *token = &p->lexer.token;
    *attribute = (struct remat_attribute){0};
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "an attribute");
    attribute->key = remat_string(p->arena, token->text, token->length);
    remat_lex(&p->lexer);
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "="));
    if (remat_lex_is(&p->lexer, "["))
        return parse_ints(p, attribute, ints);
    if (remat_lex_is_float(&p->lexer)) {
        attribute->kind = REMAT_ATTRIBUTE_FLOAT;
        return remat_lex_float(&p->lexer, "a number", &attribute->f);
    }
    attribute->kind = REMAT_ATTRIBUTE_INT;
    return remat_parse_int(p, REMAT_INTEGER_MIN, "a number", &attribute->i);
}

remat_status remat_parse_attributes(struct parser *p, struct attributes *out)
{
    out->count = 0;
    if (!remat_lex_accept(&p->lexer, "{"))
        return REMAT_OK;
    do {
        if (out->count == ATTRIBUTES_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d attributes", ATTRIBUTES_MAX);
        struct remat_attribute *attribute = &out->items[out->count];
        REMAT_CHECK(parse_attribute(p, attribute, out->ints[out->count]));
        for (uint32_t a = 0; a < out->count; a++)
            if (strcmp(out->items[a].key, attribute->key) == 0)
                return REMAT_LEX_ERROR(&p->lexer, "attribute %.60s is given twice", attribute->key);
        out->count++;
    } while (remat_lex_accept(&p->lexer, ","));
    return remat_lex_expect_mark(&p->lexer, "}");
}

static remat_status parse_op(struct parser *p, uint16_t *out)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "an op");
    if (!remat_op_find(token->text, token->length, out))
        return REMAT_LEX_ERROR(&p->lexer, "unknown op '%.*s'",
                               token->length > 60 ? 60 : (int)token->length, token->text);
    remat_lex(&p->lexer);
    return REMAT_OK;
}

static remat_status parse_scope(struct parser *p, uint32_t *out)
{
    *out = 0;
    if (!remat_lex_accept(&p->lexer, "scope"))
        return REMAT_OK;
    if (p->lexer.token.kind != REMAT_TOKEN_STRING)
        return remat_lex_expected(&p->lexer, "a scope in quotes");
    *out = remat_graph_scope(p->arena, p->graph, p->lexer.token.text);
    if (p->graph->scope_count > SCOPES_MAX)
        return REMAT_LEX_ERROR(&p->lexer, "more than %d scopes", SCOPES_MAX);
    remat_lex(&p->lexer);
    return REMAT_OK;
}

/* phase PHASE [scope "PATH"] [origin OP group N] */
static remat_status parse_clauses(struct parser *p, struct remat_node_info *node)
{
    if (!remat_lex_accept(&p->lexer, "phase"))
        return remat_lex_expected(&p->lexer, "an input, attributes or 'phase'");
    if (!remat_parse_word(&p->lexer, remat_phase_name, REMAT_PHASE_COUNT, &node->phase))
        return remat_lex_expected(&p->lexer, "a phase");
    remat_lex(&p->lexer);
    REMAT_CHECK(parse_scope(p, &node->scope));
    node->origin_group = REMAT_NONE;
    if (remat_lex_accept(&p->lexer, "origin")) {
        int64_t group;
        REMAT_CHECK(parse_op(p, &node->origin));
        if (!remat_lex_accept(&p->lexer, "group"))
            return remat_lex_expected(&p->lexer, "'group'");
        REMAT_CHECK(remat_lex_int(&p->lexer, 0, REMAT_NONE - 1, "a group", &group));
        node->origin_group = (uint32_t)group;
    }
    return REMAT_OK;
}

static remat_status parse_results(struct parser *p, struct result *results, uint32_t *out_count)
{
    *out_count = 0;
    do {
        if (*out_count == RESULTS_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d results", RESULTS_MAX);
        struct result *result = &results[(*out_count)++];
        REMAT_CHECK(remat_parse_name(p, result));
        if (result->instance != results[0].instance)
            return REMAT_LEX_ERROR(&p->lexer, "results of instances %u and %u in one node",
                                   results[0].instance, result->instance);
        REMAT_CHECK(remat_parse_type(p, &result->info));
        result->info.role = REMAT_ROLE_ACTIVATION;
        if (remat_parse_word(&p->lexer, remat_lex_role, REMAT_ROLE_COUNT, &result->info.role))
            remat_lex(&p->lexer);
        REMAT_CHECK(remat_parse_pin(p, &result->info));
    } while (remat_lex_accept(&p->lexer, ","));
    return REMAT_OK;
}

remat_status remat_parse_node(struct parser *p)
{
    struct result results[RESULTS_MAX];
    remat_value inputs[INPUTS_MAX], outputs[RESULTS_MAX];
    struct attributes attributes;
    struct remat_node_info node = {.inputs = inputs, .outputs = outputs};

    REMAT_CHECK(parse_results(p, results, &node.output_count));
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "="));
    REMAT_CHECK(parse_op(p, &node.op));
    while (p->lexer.token.kind == REMAT_TOKEN_VALUE) {
        if (node.input_count == INPUTS_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d inputs", INPUTS_MAX);
        REMAT_CHECK(remat_parse_use(p, "an input", &inputs[node.input_count++]));
    }
    REMAT_CHECK(remat_parse_attributes(p, &attributes));
    node.attributes = attributes.items;
    node.attribute_count = attributes.count;
    REMAT_CHECK(parse_clauses(p, &node));
    node.instance = results[0].instance;
    for (uint32_t k = 0; k < node.output_count; k++)
        REMAT_CHECK(remat_parser_define(p, &results[k], &outputs[k]));
    remat_graph_add_node(p->arena, p->graph, &node);
    return REMAT_OK;
    return REMAT_OK;
}
