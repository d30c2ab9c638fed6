/* SPDX-License-Identifier: Apache-2.0 */
/* Graph text, statement by statement. */
#include "graph_parse.h"
#include "graph_text.h"
#include "ops.h"

#include <math.h>

#define BYTES_MAX (1 << 30) /* of the text: ids and lines stay far from 2^32 */

/* --- graph inputs --- */

static remat_status parse_initializer(struct parser *p, struct remat_value_info *info)
{
    if (!remat_lex_accept(&p->lexer, "="))
        return REMAT_OK;
    bool constant = remat_lex_accept(&p->lexer, "constant");
    bool normal = !constant && remat_lex_accept(&p->lexer, "normal");
    if (constant == normal)
        return remat_lex_expected(&p->lexer, "constant or normal");
    info->initializer = constant ? REMAT_INIT_CONSTANT : REMAT_INIT_NORMAL;
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "("));
    REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &info->init_mean));
    if (normal) {
        REMAT_CHECK(remat_lex_expect_mark(&p->lexer, ","));
        REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &info->init_std));
    }
    return remat_lex_expect_mark(&p->lexer, ")");
}

/* After ROLE NAME. */
static remat_status parse_source(struct parser *p, struct result *result)
{
    remat_value value;
    if (result->instance)
        return REMAT_LEX_ERROR(&p->lexer, "graph input %%%.60s: only results have instances",
                               result->info.name);
    REMAT_CHECK(remat_parse_type(p, &result->info));
    REMAT_CHECK(parse_initializer(p, &result->info));
    result->info.trainable =
        remat_lex_accept(&p->lexer, "trainable") ||
        (!remat_lex_accept(&p->lexer, "frozen") && result->info.role == REMAT_ROLE_PARAMETER);
    REMAT_CHECK(remat_parse_pin(p, &result->info));
    return remat_parser_define(p, result, &value);
}

/* --- the graph --- */

static remat_status parse_optimizer(struct parser *p)
{
    struct remat_optimizer *optimizer = &p->graph->optimizer;
    struct attributes settings;
    if (optimizer->kind != REMAT_OPTIMIZER_NONE)
        return REMAT_LEX_ERROR(&p->lexer, "%s", "the optimizer is given twice");
    uint8_t kind = remat_lex_accept(&p->lexer, "adamw") ? REMAT_OPTIMIZER_ADAMW
                   : remat_lex_accept(&p->lexer, "sgd") ? REMAT_OPTIMIZER_SGD
                                                        : REMAT_OPTIMIZER_NONE;
    if (kind == REMAT_OPTIMIZER_NONE)
        return remat_lex_expected(&p->lexer, "adamw or sgd");
    REMAT_CHECK(remat_parse_attributes(p, &settings));
    const struct remat_node_info all = {.attributes = settings.items,
                                        .attribute_count = settings.count};
    const struct {
        const char *key;
        double *to;
    } keys[] = {{"beta1", &optimizer->beta1},
                {"beta2", &optimizer->beta2},
                {"epsilon", &optimizer->epsilon},
                {"weight_decay", &optimizer->weight_decay}};
    const char *name = remat_optimizer_name(kind);
    uint32_t first = kind == REMAT_OPTIMIZER_ADAMW ? 0 : 3;
    for (uint32_t k = first; k < 4; k++) {
        *keys[k].to = remat_node_float(&all, keys[k].key, NAN);
        if (isnan(*keys[k].to))
            return REMAT_LEX_ERROR(&p->lexer, "%s: %s must be given as a float", name, keys[k].key);
    }
    bool clips = remat_node_attribute(&all, "clip_norm");
    optimizer->clip_norm = remat_node_float(&all, "clip_norm", 0);
    if (clips && !(optimizer->clip_norm > 0 && optimizer->clip_norm <= 1e30))
        return REMAT_LEX_ERROR(&p->lexer, "%s: clip_norm must be a float above 0, up to 1e30",
                               name);
    if (settings.count != 4 - first + clips)
        return REMAT_LEX_ERROR(&p->lexer,
                               "%s: unknown setting; accepted: %sweight_decay, clip_norm", name,
                               first == 0 ? "beta1, beta2, epsilon, " : "");
    optimizer->kind = kind;
    return REMAT_OK;
}

/* Symbols are declared before they are used. */
static remat_status parse_symbol(struct parser *p)
{
    const struct remat_token *token = &p->lexer.token;
    int64_t value = 0;
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "the name of a symbol");
    const char *name = remat_string(p->arena, token->text, token->length);
    remat_lex(&p->lexer);
    if (remat_lex_accept(&p->lexer, "="))
        REMAT_CHECK(remat_lex_int(&p->lexer, 1, REMAT_SYMBOL_VALUE_MAX, "a value", &value));
    if (remat_graph_add_symbol(p->ctx, p->arena, p->graph, name, value) != REMAT_OK)
        return REMAT_LEX_ERROR(&p->lexer, "%s", p->ctx->message);
    return REMAT_OK;
}

static remat_status parse_update(struct parser *p)
{
    struct remat_update update;
    REMAT_CHECK(remat_parse_use(p, "a state", &update.state));
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "="));
    REMAT_CHECK(remat_parse_use(p, "a value", &update.value));
    REMAT_PUSH(p->arena, &p->updates, update);
    return REMAT_OK;
}

/* A graph input; `output` is a role as well as the mark of an output, told apart by the type. */
static remat_status parse_source_or_output(struct parser *p, uint8_t role)
{
    struct remat_lexer before = p->lexer;
    struct result result;
    remat_value output;
    REMAT_CHECK(remat_parse_name(p, &result));
    result.info.role = role;
    if (role != REMAT_ROLE_OUTPUT || remat_lex_is(&p->lexer, ":"))
        return parse_source(p, &result);
    p->lexer = before;
    REMAT_CHECK(remat_parse_use(p, "a value", &output));
    REMAT_PUSH(p->arena, &p->outputs, output);
    return REMAT_OK;
}

static remat_status parse_statement(struct parser *p)
{
    uint8_t role;
    if (p->lexer.token.kind == REMAT_TOKEN_VALUE)
        return remat_parse_node(p);
    if (remat_parse_word(&p->lexer, remat_lex_role, REMAT_ROLE_COUNT, &role)) {
        remat_lex(&p->lexer);
        return parse_source_or_output(p, role);
    }
    if (remat_lex_accept(&p->lexer, "update"))
        return parse_update(p);
    if (remat_lex_accept(&p->lexer, "optimizer"))
        return parse_optimizer(p);
    if (remat_lex_accept(&p->lexer, "symbol"))
        return parse_symbol(p);
    return remat_lex_expected(&p->lexer,
                              "a node, a graph input, output, update, symbol or optimizer");
}

static remat_status parse_end_of_line(struct parser *p)
{
    if (p->lexer.token.kind == REMAT_TOKEN_END)
        return REMAT_OK;
    if (p->lexer.token.kind != REMAT_TOKEN_NEWLINE)
        return remat_lex_expected(&p->lexer, "the end of the line");
    remat_lex(&p->lexer);
    return REMAT_OK;
}

static remat_status parse_heading(struct parser *p)
{
    remat_lex(&p->lexer);
    if (p->lexer.token.kind == REMAT_TOKEN_NEWLINE)
        remat_lex(&p->lexer);
    if (!remat_lex_accept(&p->lexer, "graph"))
        return remat_lex_expected(&p->lexer, "'graph'");
    if (p->lexer.token.kind != REMAT_TOKEN_STRING)
        return remat_lex_expected(&p->lexer, "a name in quotes");
    p->graph = remat_graph_create(p->arena, p->lexer.token.text);
    remat_lex(&p->lexer);
    return parse_end_of_line(p);
}

remat_status remat_graph_parse(remat_context *ctx, const char *name, const char *text, size_t bytes,
                               struct remat_arena *arena, struct remat_graph **out)
{
    struct parser parser = {.ctx = ctx, .arena = arena}, *p = &parser;
    p->lexer = (struct remat_lexer){.ctx = ctx, .arena = arena, .file = name, .line = 1};
    if (bytes > BYTES_MAX)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: %zu bytes; accepted: up to %d", name,
                           bytes, BYTES_MAX);
    p->lexer.at = text;
    p->lexer.end = text + bytes;
    REMAT_CHECK(parse_heading(p));
    while (p->lexer.token.kind != REMAT_TOKEN_END) {
        REMAT_CHECK(parse_statement(p));
        REMAT_CHECK(parse_end_of_line(p));
    }
    p->graph->outputs = p->outputs.items;
    p->graph->output_count = (uint32_t)p->outputs.count;
    p->graph->updates = p->updates.items;
    p->graph->update_count = (uint32_t)p->updates.count;
    *out = p->graph;
    remat_status st = remat_graph_verify_symbolic(ctx, p->graph);
    return st == REMAT_ERROR_INVALID ? remat_error(ctx, st, "%s: %s", name, ctx->message) : st;
}
