/* SPDX-License-Identifier: Apache-2.0 */
/* Graph text, statement by statement. */
#include "graph_text.h"

#include "constant.h"
#include "graph_lex.h"
#include "index.h"
#include "ops.h"
#include "range.h"

#include <math.h>

#define BYTES_MAX      (1 << 30) /* of the text: ids and lines stay far from 2^32 */
#define ATTRIBUTES_MAX 16
#define INTS_MAX       64 /* of a list */
#define RESULTS_MAX    32
#define INPUTS_MAX     255
#define SCOPES_MAX     65536

struct parser {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_graph *graph;
    struct remat_lexer lexer;
    struct remat_index names;              /* value ids by name and instance */
    struct REMAT_LIST(uint32_t) instances; /* by value id */
    struct REMAT_LIST(remat_value) outputs;
    struct REMAT_LIST(struct remat_update) updates;
};

struct attributes { /* of the node being read */
    struct remat_attribute items[ATTRIBUTES_MAX];
    int64_t ints[ATTRIBUTES_MAX][INTS_MAX];
    uint32_t count;
};

struct result { /* of the node being read */
    struct remat_value_info info;
    uint32_t instance;
};

/* --- names --- */

/* REMAT_NO_VALUE where none has the name. */
static remat_value find(const struct parser *p, const char *name, uint32_t instance)
{
    remat_value v;
    uint64_t hash = remat_hash_string(name, instance);
    for (size_t at = 0; (v.i = remat_index_find(&p->names, hash, &at)) != REMAT_NONE;)
        if (p->instances.items[v.i] == instance && strcmp(p->graph->values[v.i].name, name) == 0)
            break;
    return v;
}

/* Adds a value under its name. */
static remat_status define(struct parser *p, const struct result *result, remat_value *out)
{
    const char *name = result->info.name;
    if (!remat_is_none(find(p, name, result->instance).i))
        return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is defined already", name);
    *out = remat_graph_add_value(p->arena, p->graph, &result->info);
    REMAT_PUSH(p->arena, &p->instances, result->instance);
    remat_index_add(p->arena, &p->names, remat_hash_string(name, result->instance), out->i);
    return REMAT_OK;
}

/* Reads the use of a value; `what` was expected. */
static remat_status parse_use(struct parser *p, const char *what, remat_value *out)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_VALUE)
        return remat_lex_expected(&p->lexer, what);
    *out = find(p, token->text, token->instance);
    if (remat_is_none(out->i))
        return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is not defined before this use",
                               token->text);
    remat_lex(&p->lexer);
    return REMAT_OK;
}

/* Reads the name of a value that is being defined. */
static remat_status parse_name(struct parser *p, struct result *result)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_VALUE)
        return remat_lex_expected(&p->lexer, "a value");
    *result = (struct result){.instance = token->instance};
    result->info.name = token->text;
    result->info.node = REMAT_NO_NODE;
    remat_lex(&p->lexer);
    return REMAT_OK;
}

/* --- integers --- */

/* Reads a number or the name of a symbol. */
static remat_status parse_int(struct parser *p, int64_t min, const char *what, int64_t *out)
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

/* Reads "[N, ...]", at most `most` of them, which are `items` and each `what`. */
static remat_status parse_ints(struct parser *p, int64_t min, uint32_t most, const char *items,
                               const char *what, int64_t *out, uint32_t *out_count)
{
    *out_count = 0;
    REMAT_CHECK(remat_lex_expect(&p->lexer, "["));
    if (remat_lex_accept(&p->lexer, "]"))
        return REMAT_OK;
    do {
        if (*out_count == most)
            return REMAT_LEX_ERROR(&p->lexer, "more than %u %s", most, items);
        REMAT_CHECK(parse_int(p, min, what, &out[(*out_count)++]));
    } while (remat_lex_accept(&p->lexer, ","));
    return remat_lex_expect(&p->lexer, "]");
}

/* Reads "whole(AXIS)", or "split(AXIS, DIMENSION)" with ", BLOCKS", if it is there. */
static remat_status parse_layout(struct parser *p, const struct remat_stated **out)
{
    const struct remat_token *token = &p->lexer.token;
    struct remat_stated *stated;
    bool splits = remat_lex_accept(&p->lexer, "split");
    int64_t dimension = 0;
    if (!splits && !remat_lex_accept(&p->lexer, "whole"))
        return REMAT_OK;
    REMAT_CHECK(remat_lex_expect(&p->lexer, "("));
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "an axis");
    REMAT_NEW(p->arena, stated, 1);
    *out = stated;
    stated->axis = remat_string(p->arena, token->text, token->length);
    remat_lex(&p->lexer);
    if (splits) {
        stated->blocks = 1;
        REMAT_CHECK(remat_lex_expect(&p->lexer, ","));
        REMAT_CHECK(remat_lex_int(&p->lexer, 0, REMAT_RANK_MAX - 1, "a dimension", &dimension));
        if (remat_lex_accept(&p->lexer, ","))
            REMAT_CHECK(
                remat_lex_int(&p->lexer, 1, INT64_MAX, "a number of blocks", &stated->blocks));
    }
    stated->dimension = (uint32_t)dimension;
    return remat_lex_expect(&p->lexer, ")");
}

/* Reads ": DTYPE[DIM, ...] LAYOUT". */
static remat_status parse_type(struct parser *p, struct remat_value_info *info)
{
    REMAT_CHECK(remat_lex_expect(&p->lexer, ":"));
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_WORD ||
        !remat_dtype_parse(token->text, token->length, &info->dtype))
        return remat_lex_expected(&p->lexer, "an element type");
    remat_lex(&p->lexer);
    REMAT_CHECK(parse_ints(p, 1, REMAT_RANK_MAX, "axes", "a dimension", info->shape.dims,
                           &info->shape.rank));
    if (!remat_shape_fits(&info->shape, info->dtype))
        return REMAT_LEX_ERROR(&p->lexer, "value %%%.60s is larger than 2^63 bytes", info->name);
    return parse_layout(p, &info->stated);
}

/* Reads "pin save" or "pin recompute", if it is there. */
static remat_status parse_pin(struct parser *p, struct remat_value_info *info)
{
    if (!remat_lex_accept(&p->lexer, "pin"))
        return REMAT_OK;
    info->pin = remat_lex_accept(&p->lexer, "save")        ? REMAT_PIN_SAVE
                : remat_lex_accept(&p->lexer, "recompute") ? REMAT_PIN_RECOMPUTE
                                                           : REMAT_PIN_NONE;
    return info->pin ? REMAT_OK : remat_lex_expected(&p->lexer, "save or recompute");
}

/* Which of `count` words the token is; moves past it if it is one. */
static bool parse_word(struct remat_lexer *lexer, const char *(*word)(uint32_t), uint32_t count,
                       uint8_t *out)
{
    for (uint32_t k = 0; k < count; k++)
        if (remat_lex_accept(lexer, word(k))) {
            *out = (uint8_t)k;
            return true;
        }
    return false;
}

/* --- nodes --- */

/* Here the line is known. What is no number, or NaN, is the op's to refuse. */
static remat_status check_range(struct parser *p, const struct remat_attribute *attribute)
{
    const struct remat_range range = remat_range_of(attribute->key);
    bool is_float = attribute->kind == REMAT_ATTRIBUTE_FLOAT;
    double number = is_float ? attribute->f : (double)attribute->i;
    if (attribute->kind != range.kind || isnan(number) || remat_range_has(&range, number) ||
        (!is_float && remat_is_symbol(attribute->i)))
        return REMAT_OK;
    return REMAT_LEX_ERROR(&p->lexer, "%s is %.15g, expected %s", attribute->key, number,
                           remat_range_text(&range).text);
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
    REMAT_CHECK(remat_lex_expect(&p->lexer, "="));
    if (remat_lex_is(&p->lexer, "[")) {
        attribute->kind = REMAT_ATTRIBUTE_INTS;
        attribute->ints = ints;
        return parse_ints(p, REMAT_INTEGER_MIN, INTS_MAX, "integers in a list", "an integer", ints,
                          &attribute->count);
    }
    if (remat_lex_is_float(&p->lexer)) {
        attribute->kind = REMAT_ATTRIBUTE_FLOAT;
        REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &attribute->f));
        return check_range(p, attribute);
    }
    attribute->kind = REMAT_ATTRIBUTE_INT;
    REMAT_CHECK(parse_int(p, REMAT_INTEGER_MIN, "a number", &attribute->i));
    return check_range(p, attribute);
}

/* Reads "{KEY = VALUE, ...}", if it is there. */
static remat_status parse_attributes(struct parser *p, struct attributes *out)
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
    return remat_lex_expect(&p->lexer, "}");
}

static remat_status parse_op(struct parser *p, uint16_t *out)
{
    const struct remat_token *token = &p->lexer.token;
    if (token->kind != REMAT_TOKEN_WORD)
        return remat_lex_expected(&p->lexer, "an op");
    if (!remat_op_find(token->text, token->length, out)) {
        char name[61];
        snprintf(name, sizeof name, "%.*s", (int)(token->length > 60 ? 60 : token->length),
                 token->text);
        return REMAT_LEX_ERROR(&p->lexer, "unknown op '%s'%s (ops.def lists all: docs/ir.md)", name,
                               remat_op_suggest(name).text);
    }
    remat_lex(&p->lexer);
    return REMAT_OK;
}

static remat_status parse_scope(struct parser *p, remat_scope_id *out)
{
    *out = REMAT_TOP;
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
    if (!parse_word(&p->lexer, remat_phase_name, REMAT_PHASE_COUNT, &node->phase))
        return remat_lex_expected(&p->lexer, "a phase");
    REMAT_CHECK(parse_scope(p, &node->scope));
    node->origin_group = REMAT_NONE;
    if (remat_lex_accept(&p->lexer, "origin")) {
        int64_t group;
        REMAT_CHECK(parse_op(p, &node->origin));
        REMAT_CHECK(remat_lex_expect(&p->lexer, "group"));
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
        REMAT_CHECK(parse_name(p, result));
        if (result->instance != results[0].instance)
            return REMAT_LEX_ERROR(&p->lexer, "results of instances %u and %u in one node",
                                   results[0].instance, result->instance);
        REMAT_CHECK(parse_type(p, &result->info));
        result->info.role = REMAT_ROLE_ACTIVATION;
        (void)parse_word(&p->lexer, remat_lex_role, REMAT_ROLE_COUNT, &result->info.role);
        REMAT_CHECK(parse_pin(p, &result->info));
    } while (remat_lex_accept(&p->lexer, ","));
    return REMAT_OK;
}

/* At the name of an optional operand of the op, not below *number: reads up to its "=". */
static remat_status parse_operand_name(struct parser *p, struct remat_node_info *node,
                                       uint32_t named, uint32_t *number)
{
    const struct remat_token *token = &p->lexer.token;
    if (named < *number)
        return REMAT_LEX_ERROR(&p->lexer, "operand %.*s comes too late, or twice",
                               (int)token->length, token->text);
    for (; *number < named; ++*number)
        node->absent |= 1u << *number;
    remat_lex(&p->lexer);
    return remat_lex_expect(&p->lexer, "=");
}

static remat_status parse_inputs(struct parser *p, struct remat_node_info *node,
                                 remat_value inputs[INPUTS_MAX])
{
    const struct remat_token *token = &p->lexer.token;
    for (uint32_t number = 0;; number++) {
        uint32_t named = token->kind == REMAT_TOKEN_WORD
                             ? remat_op_find_operand(node->op, token->text, token->length)
                             : REMAT_NONE;
        if (!remat_is_none(named))
            REMAT_CHECK(parse_operand_name(p, node, named, &number));
        else if (token->kind != REMAT_TOKEN_VALUE)
            return REMAT_OK;
        if (node->input_count == INPUTS_MAX)
            return REMAT_LEX_ERROR(&p->lexer, "more than %d inputs", INPUTS_MAX);
        REMAT_CHECK(parse_use(p, "an input", &inputs[node->input_count++]));
    }
}

/* Reads a node, whose results come first, and adds it. */
static remat_status parse_node(struct parser *p)
{
    struct result results[RESULTS_MAX];
    remat_value inputs[INPUTS_MAX], outputs[RESULTS_MAX];
    struct attributes attributes;
    struct remat_node_info node = {.inputs = inputs, .outputs = outputs};

    REMAT_CHECK(parse_results(p, results, &node.output_count));
    REMAT_CHECK(remat_lex_expect(&p->lexer, "="));
    REMAT_CHECK(parse_op(p, &node.op));
    REMAT_CHECK(parse_inputs(p, &node, inputs));
    REMAT_CHECK(parse_attributes(p, &attributes));
    node.attributes = attributes.items;
    node.attribute_count = attributes.count;
    REMAT_CHECK(parse_clauses(p, &node));
    node.instance = results[0].instance;
    for (uint32_t k = 0; k < node.output_count; k++)
        REMAT_CHECK(define(p, &results[k], &outputs[k]));
    remat_graph_add_node(p->arena, p->graph, &node);
    return REMAT_OK;
}

/* --- graph inputs --- */

static remat_status parse_element(struct parser *p, remat_dtype dtype, uint32_t *out)
{
    int64_t integer = 0;
    double number = 0;
    if (dtype == REMAT_F32)
        REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &number));
    else
        REMAT_CHECK(remat_lex_int(&p->lexer, INT32_MIN, INT32_MAX, "an i32", &integer));
    float rounded = (float)number;
    if (isinf(rounded) && !isinf(number))
        return REMAT_LEX_ERROR(&p->lexer, "%g is out of range of f32", number);
    if (dtype == REMAT_F32)
        memcpy(out, &rounded, sizeof rounded);
    else
        *out = (uint32_t)integer;
    return REMAT_OK;
}

/* After "[": the elements of a constant. */
static remat_status parse_data(struct parser *p, struct remat_value_info *info)
{
    struct REMAT_LIST(uint32_t) data = {0};
    uint32_t element;
    do {
        REMAT_CHECK(parse_element(p, info->dtype, &element));
        REMAT_PUSH(p->arena, &data, element);
    } while (remat_lex_accept(&p->lexer, ","));
    REMAT_CHECK(remat_lex_expect(&p->lexer, "]"));
    info->data = data.items;
    const char *fault = remat_constant_find_fault(info, data.count * sizeof element);
    return fault ? REMAT_LEX_ERROR(&p->lexer, "value %%%.60s: %s", info->name, fault) : REMAT_OK;
}

static remat_status parse_initializer(struct parser *p, struct remat_value_info *info)
{
    if (!remat_lex_accept(&p->lexer, "="))
        return REMAT_OK;
    if (remat_lex_accept(&p->lexer, "["))
        return parse_data(p, info);
    bool constant = remat_lex_accept(&p->lexer, "constant");
    bool normal = !constant && remat_lex_accept(&p->lexer, "normal");
    if (constant == normal)
        return remat_lex_expected(&p->lexer, "constant, normal or [");
    info->initializer = constant ? REMAT_INIT_CONSTANT : REMAT_INIT_NORMAL;
    REMAT_CHECK(remat_lex_expect(&p->lexer, "("));
    REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &info->init_mean));
    if (normal) {
        REMAT_CHECK(remat_lex_expect(&p->lexer, ","));
        REMAT_CHECK(remat_lex_float(&p->lexer, "a number", &info->init_std));
    }
    return remat_lex_expect(&p->lexer, ")");
}

/* After ROLE NAME. */
static remat_status parse_source(struct parser *p, struct result *result)
{
    remat_value value;
    if (result->instance)
        return REMAT_LEX_ERROR(&p->lexer, "graph input %%%.60s: only results have instances",
                               result->info.name);
    REMAT_CHECK(parse_type(p, &result->info));
    REMAT_CHECK(parse_initializer(p, &result->info));
    result->info.trainable =
        remat_lex_accept(&p->lexer, "trainable") ||
        (!remat_lex_accept(&p->lexer, "frozen") && result->info.role == REMAT_ROLE_PARAMETER);
    result->info.no_decay = remat_lex_accept(&p->lexer, "no_decay");
    if (remat_lex_accept(&p->lexer, "unpadded"))
        REMAT_CHECK(remat_lex_int(&p->lexer, 1, INT64_MAX, "a number of rows",
                                  &result->info.unpadded_rows));
    REMAT_CHECK(parse_pin(p, &result->info));
    return define(p, result, &value);
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
    REMAT_CHECK(parse_attributes(p, &settings));
    const struct remat_node_info all = {.attributes = settings.items,
                                        .attribute_count = settings.count};
    const char *name = remat_optimizer_name(kind);
    uint32_t first = kind == REMAT_OPTIMIZER_ADAMW ? 0 : 3;
    for (uint32_t k = first; k < 4; k++) {
        optimizer->settings[k] = remat_node_float(&all, remat_optimizer_setting(k), NAN);
        if (isnan(optimizer->settings[k]))
            return REMAT_LEX_ERROR(&p->lexer, "%s: %s must be given as a float", name,
                                   remat_optimizer_setting(k));
    }
    bool clips = remat_node_attribute(&all, "clip_norm");
    optimizer->clip_norm = remat_node_float(&all, "clip_norm", 0);
    if (clips && !(optimizer->clip_norm > 0))
        return REMAT_LEX_ERROR(&p->lexer, "%s: clip_norm must be given as a float", name);
    if (settings.count != 4 - first + clips)
        return REMAT_LEX_ERROR(&p->lexer,
                               "%s: unknown setting; accepted: %sweight_decay, clip_norm", name,
                               first == 0 ? "beta1, beta2, epsilon, " : "");
    optimizer->kind = kind;
    optimizer->no_master = remat_lex_accept(&p->lexer, "no_master");
    optimizer->bf16_moments = first == 0 && remat_lex_accept(&p->lexer, "bf16_moments");
    return REMAT_OK;
}

static remat_status parse_text(struct parser *p, const char *word, const char **out)
{
    if (*out)
        return REMAT_LEX_ERROR(&p->lexer, "%s is given twice", word);
    if (p->lexer.token.kind != REMAT_TOKEN_STRING)
        return remat_lex_expected(&p->lexer, "a text in quotes");
    *out = p->lexer.token.text;
    remat_lex(&p->lexer);
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
    REMAT_CHECK(parse_use(p, "a state", &update.state));
    REMAT_CHECK(remat_lex_expect(&p->lexer, "="));
    REMAT_CHECK(parse_use(p, "a value", &update.value));
    REMAT_PUSH(p->arena, &p->updates, update);
    return REMAT_OK;
}

/* A graph input; `output` is a role as well as the mark of an output, told apart by the type. */
static remat_status parse_source_or_output(struct parser *p, uint8_t role)
{
    struct remat_lexer before = p->lexer;
    struct result result;
    remat_value output;
    REMAT_CHECK(parse_name(p, &result));
    result.info.role = role;
    if (role != REMAT_ROLE_OUTPUT || remat_lex_is(&p->lexer, ":"))
        return parse_source(p, &result);
    p->lexer = before;
    REMAT_CHECK(parse_use(p, "a value", &output));
    REMAT_PUSH(p->arena, &p->outputs, output);
    return REMAT_OK;
}

static remat_status parse_statement(struct parser *p)
{
    uint8_t role;
    if (p->lexer.token.kind == REMAT_TOKEN_VALUE)
        return parse_node(p);
    if (parse_word(&p->lexer, remat_lex_role, REMAT_ROLE_COUNT, &role))
        return parse_source_or_output(p, role);
    if (remat_lex_accept(&p->lexer, "update"))
        return parse_update(p);
    if (remat_lex_accept(&p->lexer, "optimizer"))
        return parse_optimizer(p);
    if (remat_lex_accept(&p->lexer, "symbol"))
        return parse_symbol(p);
    if (remat_lex_accept(&p->lexer, "config"))
        return parse_text(p, "config", &p->graph->config);
    if (remat_lex_accept(&p->lexer, "plan_only"))
        return parse_text(p, "plan_only", &p->graph->plan_only);
    return remat_lex_expected(&p->lexer, "a node, a graph input, output, update, symbol, "
                                         "optimizer, config or plan_only");
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
    REMAT_CHECK(remat_lex_expect(&p->lexer, "graph"));
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
