/* SPDX-License-Identifier: Apache-2.0 */
/* Values of graph text: their names, types and uses. */
#include "graph_parse.h"

/* --- names --- */

static uint32_t *find_slot(const struct parser *p, const char *name, uint32_t instance)
{
    size_t mask = p->names.capacity - 1;
    size_t at = (size_t)remat_hash_string(name, instance) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *slot = &p->names.slots[at];
        if (remat_is_none(*slot) || (p->instances.items[*slot] == instance &&
                                     strcmp(p->graph->values[*slot].name, name) == 0))
            return slot;
    }
}

static void grow_names(struct parser *p)
{
    size_t capacity = p->names.capacity ? p->names.capacity * 2 : 256;
    REMAT_NEW(p->arena, p->names.slots, capacity);
    memset(p->names.slots, 0xff, capacity * sizeof *p->names.slots);
    p->names.capacity = capacity;
    for (uint32_t v = 0; v < p->names.count; v++)
        *find_slot(p, p->graph->values[v].name, p->instances.items[v]) = v;
}

remat_status remat_parser_define(struct parser *p, const struct result *result, remat_value *out)
{
    if (p->names.count * 2 >= p->names.capacity)
        grow_names(p);
    uint32_t *slot = find_slot(p, result->info.name, result->instance);
    if (!remat_is_none(*slot))
        return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is defined already", result->info.name);
    *out = remat_graph_add_value(p->arena, p->graph, &result->info);
    REMAT_PUSH(p->arena, &p->instances, result->instance);
    *slot = out->i;
    p->names.count++;
    return REMAT_OK;
}

remat_status remat_parse_use(struct parser *p, const char *what, remat_value *out)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_VALUE)
        return remat_lex_expected(&p->lexer, what);
    uint32_t *slot = p->names.capacity ? find_slot(p, token->text, token->instance) : NULL;
    if (!slot || remat_is_none(*slot))
        return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is not defined before this use",
                               token->text);
    *out = (remat_value){*slot};
    remat_lex(&p->lexer);
    return REMAT_OK;
}

remat_status remat_parse_name(struct parser *p, struct result *result)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_VALUE)
        return remat_lex_expected(&p->lexer, "a value");
    *result = (struct result){.instance = token->instance};
    result->info.name = token->text;
    result->info.node = REMAT_NONE;
    remat_lex(&p->lexer);
    return REMAT_OK;
}

/* --- integers --- */

remat_status remat_parse_int(struct parser *p, int64_t min, const char *what, int64_t *out)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind == REMAT_TOKEN_WORD)
        for (uint32_t k = 0; k < p->graph->symbol_count; k++)
            if (remat_lex_is(&p->lexer, p->graph->symbols[k].name)) {
                *out = REMAT_SYMBOL(k);
                remat_lex(&p->lexer);
                return REMAT_OK;
            }
    return remat_lex_int(&p->lexer, min, INT64_MAX, what, out);
}

/* --- types --- */

static remat_status parse_dims(struct parser *p, struct remat_value_info *info)
{
    uint64_t bytes = remat_dtype_bytes(info->dtype);
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, "["));
    if (remat_lex_accept(&p->lexer, "]"))
        return REMAT_OK;
    do {
        if (info->shape.rank == REMAT_RANK_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d axes", REMAT_RANK_MAX);
        int64_t *dim = &info->shape.dims[info->shape.rank++];
        REMAT_CHECK(remat_parse_int(p, 1, "a dimension", dim));
        if (!remat_is_symbol(*dim) &&
            (!remat_mul_u64(bytes, (uint64_t)*dim, &bytes) || bytes > INT64_MAX))
            return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is larger than 2^63 bytes",
                                   info->name);
    } while (remat_lex_accept(&p->lexer, ","));
    return remat_lex_expect_mark(&p->lexer, "]");
}

remat_status remat_parse_type(struct parser *p, struct remat_value_info *info)
{
    REMAT_CHECK(remat_lex_expect_mark(&p->lexer, ":"));
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_WORD ||
        !remat_dtype_parse(token->text, token->length, &info->dtype))
        return remat_lex_expected(&p->lexer, "an element type");
    remat_lex(&p->lexer);
    return parse_dims(p, info);
}

remat_status remat_parse_pin(struct parser *p, struct remat_value_info *info)
{
    if (!remat_lex_accept(&p->lexer, "pin"))
        return REMAT_OK;
    info->pin = remat_lex_accept(&p->lexer, "save")        ? REMAT_PIN_SAVE
                : remat_lex_accept(&p->lexer, "recompute") ? REMAT_PIN_RECOMPUTE
                                                           : REMAT_PIN_NONE;
    return info->pin ? REMAT_OK : remat_lex_expected(&p->lexer, "save or recompute");
}

bool remat_parse_word(const struct remat_lexer *lexer, const char *(*word)(uint32_t),
                      uint32_t count, uint8_t *out)
{
    for (uint32_t k = 0; k < count; k++)
        if (remat_lex_is(lexer, word(k))) {
            *out = (uint8_t)k;
            return true;
        }
    return false;
}
