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
    remat_status st = REMAT_OK;
    bool found, constant, normal = false;
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_MARK, "=", &found));
    if (!found)
        return REMAT_OK;
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "constant", &constant));
    if (!constant)
        REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "normal", &normal));
    if (!constant && !normal)
        return remat_lex_expected(&p->lexer, "constant or normal");
    info->initializer = constant ? REMAT_INIT_CONSTANT : REMAT_INIT_NORMAL;
    REMAT_TRY(remat_lex_expect_mark(&p->lexer, "("));
    REMAT_TRY(remat_lex_float(&p->lexer, "a number", &info->init_mean));
    if (normal) {
        REMAT_TRY(remat_lex_expect_mark(&p->lexer, ","));
        REMAT_TRY(remat_lex_float(&p->lexer, "a number", &info->init_std));
    }
    return remat_lex_expect_mark(&p->lexer, ")");
fail:
    return st;
}

/* After ROLE NAME. */
static remat_status parse_source(struct parser *p, struct result *result)
{
    remat_status st = REMAT_OK;
    bool frozen, trainable = false;
    remat_value value;
    if (result->instance)
        REMAT_LEX_FAIL(&p->lexer, "graph input %%%.60s: only results have instances",
                       result->info.name);
    REMAT_TRY(remat_parse_type(p, &result->info));
    REMAT_TRY(parse_initializer(p, &result->info));
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "frozen", &frozen));
    if (!frozen)
        REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "trainable", &trainable));
    result->info.trainable = trainable || (!frozen && result->info.role == REMAT_ROLE_PARAMETER);
    REMAT_TRY(remat_parse_pin(p, &result->info));
    return remat_parser_define(p, result, &value);
fail:
    return st;
}

/* --- the graph --- */

static remat_status parse_optimizer(struct parser *p)
{
    remat_status st = REMAT_OK;
    struct remat_optimizer *optimizer = &p->graph->optimizer;
    struct attributes settings;
    bool found;
    uint8_t kind = REMAT_OPTIMIZER_ADAMW;
    if (optimizer->kind != REMAT_OPTIMIZER_NONE)
        REMAT_LEX_FAIL(&p->lexer, "%s", "the optimizer is given twice");
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "adamw", &found));
    if (!found) {
        kind = REMAT_OPTIMIZER_SGD;
        REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "sgd", &found));
    }
    if (!found)
        return remat_lex_expected(&p->lexer, "adamw or sgd");
    REMAT_TRY(remat_parse_attributes(p, &settings));
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
            REMAT_LEX_FAIL(&p->lexer, "%s: %s must be given as a float", name, keys[k].key);
    }
    bool clips = remat_node_attribute(&all, "clip_norm");
    optimizer->clip_norm = remat_node_float(&all, "clip_norm", 0);
    if (clips && !(optimizer->clip_norm > 0 && optimizer->clip_norm <= 1e30))
        REMAT_LEX_FAIL(&p->lexer, "%s: clip_norm must be a float above 0, up to 1e30", name);
    if (settings.count != 4 - first + clips)
        REMAT_LEX_FAIL(&p->lexer, "%s: unknown setting; accepted: %sweight_decay, clip_norm", name,
                       first == 0 ? "beta1, beta2, epsilon, " : "");
    optimizer->kind = kind;
    return REMAT_OK;
fail:
    return st;
}

/* Symbols are declared before they are used. */
static remat_status parse_symbol(struct parser *p)
{
    remat_status st = REMAT_OK;
    const struct remat_token *token = &p->lexer.token;
    int64_t value = 0;
    bool found;
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "the name of a symbol");
    const char *name = remat_string(p->arena, token->text, token->length);
    REMAT_TRY(remat_lex(&p->lexer));
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_MARK, "=", &found));
    if (found)
        REMAT_TRY(remat_lex_int(&p->lexer, 1, REMAT_SYMBOL_VALUE_MAX, "a value", &value));
    st = remat_graph_add_symbol(p->ctx, p->arena, p->graph, name, value);
    if (st == REMAT_ERROR_INVALID) {
        char reason[sizeof p->ctx->message];
        memcpy(reason, p->ctx->message, sizeof reason);
        REMAT_LEX_FAIL(&p->lexer, "%s", reason);
    }
fail:
    return st;
}

static remat_status parse_update(struct parser *p)
{
    remat_status st = REMAT_OK;
    struct remat_update update;
    REMAT_TRY(remat_parse_use(p, "a state", &update.state));
    REMAT_TRY(remat_lex_expect_mark(&p->lexer, "="));
    REMAT_TRY(remat_parse_use(p, "a value", &update.value));
    REMAT_PUSH(p->arena, &p->updates, update);
    return REMAT_OK;
fail:
    return st;
}

/* A graph input; `output` is a role as well as the mark of an output, told apart by the type. */
static remat_status parse_source_or_output(struct parser *p, uint8_t role)
{
    remat_status st = REMAT_OK;
    struct remat_lexer before = p->lexer;
    struct result result;
    remat_value output;
    REMAT_TRY(remat_parse_name(p, &result));
    result.info.role = role;
    if (role != REMAT_ROLE_OUTPUT || remat_lex_is(&p->lexer, REMAT_TOKEN_MARK, ":"))
        return parse_source(p, &result);
    p->lexer = before;
    REMAT_TRY(remat_parse_use(p, "a value", &output));
    REMAT_PUSH(p->arena, &p->outputs, output);
    return REMAT_OK;
fail:
    return st;
}

static remat_status parse_statement(struct parser *p)
{
    remat_status st = REMAT_OK;
    bool found;
    uint8_t role;
    if (p->lexer.token.kind == REMAT_TOKEN_VALUE)
        return remat_parse_node(p);
    if (remat_parse_word(&p->lexer, remat_lex_role, REMAT_ROLE_COUNT, &role)) {
        REMAT_TRY(remat_lex(&p->lexer));
        return parse_source_or_output(p, role);
    }
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "update", &found));
    if (found)
        return parse_update(p);
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "optimizer", &found));
    if (found)
        return parse_optimizer(p);
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "symbol", &found));
    if (found)
        return parse_symbol(p);
    return remat_lex_expected(&p->lexer,
                              "a node, a graph input, output, update, symbol or optimizer");
fail:
    return st;
}

static remat_status parse_end_of_line(struct parser *p)
{
    if (p->lexer.token.kind == REMAT_TOKEN_END)
        return REMAT_OK;
    if (p->lexer.token.kind != REMAT_TOKEN_NEWLINE)
        return remat_lex_expected(&p->lexer, "the end of the line");
    return remat_lex(&p->lexer);
}

static remat_status parse_heading(struct parser *p)
{
    remat_status st = REMAT_OK;
    bool found;
    REMAT_TRY(remat_lex(&p->lexer));
    if (p->lexer.token.kind == REMAT_TOKEN_NEWLINE)
        REMAT_TRY(remat_lex(&p->lexer));
    REMAT_TRY(remat_lex_accept(&p->lexer, REMAT_TOKEN_WORD, "graph", &found));
    if (!found)
        return remat_lex_expected(&p->lexer, "'graph'");
    if (p->lexer.token.kind != REMAT_TOKEN_STRING)
        return remat_lex_expected(&p->lexer, "a name in quotes");
    p->graph = remat_graph_create(p->ctx, p->arena, p->lexer.token.text);
    REMAT_TRY(remat_lex(&p->lexer));
    return parse_end_of_line(p);
fail:
    return st;
}

/* Starts the verifier's message with the file. */
static remat_status verify(struct parser *p)
{
    remat_status st = remat_graph_verify_symbolic(p->ctx, p->graph);
    if (st == REMAT_ERROR_INVALID) {
        char message[sizeof p->ctx->message];
        memcpy(message, p->ctx->message, sizeof message);
        remat_error(p->ctx, st, "%s: %s", p->lexer.file, message);
    }
    return st;
}

remat_status remat_graph_parse(remat_context *ctx, const char *name, const char *text, size_t bytes,
                               struct remat_arena *arena, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct parser parser = {.ctx = ctx, .arena = arena}, *p = &parser;
    p->lexer = (struct remat_lexer){.ctx = ctx, .arena = arena, .file = name, .line = 1};
    if (bytes > BYTES_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %zu bytes; accepted: up to %d", name, bytes,
                   BYTES_MAX);
    p->lexer.at = text;
    p->lexer.end = text + bytes;
    REMAT_TRY(parse_heading(p));
    while (p->lexer.token.kind != REMAT_TOKEN_END) {
        REMAT_TRY(parse_statement(p));
        REMAT_TRY(parse_end_of_line(p));
    }
    p->graph->outputs = p->outputs.items;
    p->graph->output_count = (uint32_t)p->outputs.count;
    p->graph->updates = p->updates.items;
    p->graph->update_count = (uint32_t)p->updates.count;
    REMAT_TRY(verify(p));
    *out = p->graph;
    return REMAT_OK;
fail:
    return st;
}
