/* SPDX-License-Identifier: Apache-2.0 */
/* Each key of the file is a row of config.def; a loop over the rows reads what they say, one over
 * the file's keys finds those without a row. */
#include "config.h"

#include "activation.h"

#include "file.h"
#include "range.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>

#define DEFAULT_SEQ     2048
#define SIZE_MOST       (1 << 24)
#define TEXT_BYTES_MOST 65535 /* docs/formats.md */

/* Sets of model types. */
enum {
    gpt2 = 1 << 0,
    llama = 1 << 1,
    mistral = 1 << 2,
    qwen2 = 1 << 3,
    qwen3 = 1 << 4,
    phi3 = 1 << 5,
    bert = 1 << 6,
    marian = 1 << 7,
    bigcode = 1 << 8,
    gpts = gpt2 | bigcode,
    llamas = llama | mistral | qwen2 | qwen3 | phi3,
    any = gpts | llamas | bert | marian
};

static const struct type {
    uint32_t set;
    const char *architecture;             /* the model with the head that the graph has */
    struct remat_model_settings settings; /* what the type alone says */
} types[] = {
    {gpt2, "GPT2LMHeadModel", {.name = "gpt2", .family = REMAT_FAMILY_gpt2}},
    {bigcode,
     "GPTBigCodeForCausalLM",
     {.name = "gpt_bigcode", .family = REMAT_FAMILY_gpt2, .by_output = true}},
    {llama, "LlamaForCausalLM", {.name = "llama", .family = REMAT_FAMILY_llama}},
    {mistral, "MistralForCausalLM", {.name = "mistral", .family = REMAT_FAMILY_llama}},
    {qwen2, "Qwen2ForCausalLM", {.name = "qwen2", .family = REMAT_FAMILY_llama, .qkv_bias = true}},
    {qwen3, "Qwen3ForCausalLM", {.name = "qwen3", .family = REMAT_FAMILY_llama, .qk_norm = true}},
    {phi3, "Phi3ForCausalLM", {.name = "phi3", .family = REMAT_FAMILY_llama, .fused = true}},
    {bert, "BertForMaskedLM", {.name = "bert", .family = REMAT_FAMILY_bert}},
    {marian, "MarianMTModel", {.name = "marian", .family = REMAT_FAMILY_encdec}},
};

enum config_kind {
    SIZE,
    NUMBER,
    BOOLEAN,
    DEPARTURE,
    SWITCH,
    ACTIVATION,
    FIXED,
    FOR_PLANS,
    EQUAL,
    DROPOUT,
    NO_DROPOUT,
    OTHER
};

static const struct config_key {
    uint32_t types;
    const char *name;
    enum config_kind kind;
    bool required;
    size_t offset;    /* the member of the settings, where there is one */
    const char *text; /* of FIXED, FOR_PLANS: the value as JSON; of EQUAL: the other key; of
                         ACTIVATION: what an absent key means; of NUMBER: the attribute that it
                         becomes */
    double absent;    /* of SIZE, NUMBER, DEPARTURE, DROPOUT: the same */
} keys[] = {
#define ROW(types, key, kind, required, offset, text, absent)                                      \
    {types, key, kind, required, offset, text, absent},
#define MEMBER(member)           offsetof(struct remat_model_settings, member)
#define SIZE(types, key, member) ROW(types, key, SIZE, true, MEMBER(member), NULL, 0)
#define OPTIONAL_SIZE(types, key, member, absent)                                                  \
    ROW(types, key, SIZE, false, MEMBER(member), NULL, absent)
#define NUMBER(types, key, member, absent)                                                         \
    ROW(types, key, NUMBER, false, MEMBER(member), #member, absent)
#define BOOLEAN(types, key, member) ROW(types, key, BOOLEAN, false, MEMBER(member), NULL, 0)
#define DEPARTURE(types, key, member, usual)                                                       \
    ROW(types, key, DEPARTURE, false, MEMBER(member), NULL, usual)
#define SWITCH(types, key, member)        ROW(types, key, SWITCH, false, MEMBER(member), NULL, 0)
#define ACTIVATION(types, key, absent)    ROW(types, key, ACTIVATION, false, 0, absent, 0)
#define FIXED(types, key, value)          ROW(types, key, FIXED, false, 0, value, 0)
#define FOR_PLANS(types, key, value)      ROW(types, key, FOR_PLANS, false, 0, value, 0)
#define EQUAL(types, key, other)          ROW(types, key, EQUAL, true, 0, other, 0)
#define OPTIONAL_EQUAL(types, key, other) ROW(types, key, EQUAL, false, 0, other, 0)
#define DROPOUT(types, key, member, absent)                                                        \
    ROW(types, key, DROPOUT, false, MEMBER(member), NULL, absent)
#define NO_DROPOUT(types, key) ROW(types, key, NO_DROPOUT, false, 0, NULL, 0)
#define READ(types, key)       ROW(types, key, OTHER, false, 0, NULL, 0)
#define IGNORED(key)           ROW(any, key, OTHER, false, 0, NULL, 0)
#include "config.def"
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

const char *remat_config_type(uint32_t k)
{
    return k < COUNT(types) ? types[k].settings.name : NULL;
}

const char *remat_config_types(struct remat_arena *arena)
{
    struct remat_text names = {.arena = arena};
    for (size_t k = 0; k < COUNT(types); k++)
        remat_text_append(&names, "%s%s", k ? ", " : "", types[k].settings.name);
    remat_text_complete(&names);
    return names.items;
}

struct config {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *path;
    json_t *root;
    uint32_t type; /* one of the set */
    bool with_dropout, plan_only;
    struct remat_model_settings *out;
};

/* "KEY is VALUE" */
static const char *describe(const struct config *c, const char *key, const json_t *value)
{
    char text[80];
    size_t length =
        value ? json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : 0;
    bool cut = length > sizeof text; /* json_dumpb returns what it would need */
    int shown = (int)(cut ? sizeof text : length);
    if (!value)
        return REMAT_FORMAT(c->arena, "%s is missing", key);
    return REMAT_FORMAT(c->arena, "%s is %.*s%s", key, shown, text, cut ? "..." : "");
}

/* "PATH: KEY is VALUE (accepted: ACCEPTED)" */
static remat_status refuse(const struct config *c, const char *key, const json_t *value,
                           const char *accepted)
{
    return remat_error(c->ctx, REMAT_ERROR_USAGE, "%s: %s (accepted: %s)", c->path,
                       describe(c, key, value), accepted);
}

static void add_reason(const struct config *c, const char *reason)
{
    const char *before = c->out->plan_only;
    c->out->plan_only = before ? REMAT_FORMAT(c->arena, "%s, %s", before, reason) : reason;
}

/* What the graph leaves out although the model has it, which changes neither memory nor time. */
static remat_status leave_out(const struct config *c, const char *key, const json_t *value,
                              const char *accepted)
{
    if (!c->plan_only)
        return refuse(
            c, key, value,
            REMAT_FORMAT(c->arena, "%s; this one with --plan-only, for a plan alone", accepted));
    add_reason(c, describe(c, key, value));
    return REMAT_OK;
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* *out stays where the key is absent; null is 0. */
static remat_status read_integer(const struct config *c, const struct config_key *row, int64_t *out)
{
    const json_t *value = json_object_get(c->root, row->name);
    if (!is_given(value) && !row->required) {
        *out = value ? 0 : *out;
        return REMAT_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > SIZE_MOST)
        return refuse(c, row->name, value, "1 to 16777216");
    *out = json_integer_value(value);
    return REMAT_OK;
}

/* A number above 0 that the attribute may be; *out stays where the key is absent. */
static remat_status read_number(const struct config *c, const json_t *object, const char *key,
                                const char *attribute, double *out)
{
    const json_t *value = json_object_get(object, key);
    struct remat_range range = remat_range_of(attribute);
    if (!is_given(value))
        return REMAT_OK;
    range.ends = range.least == 0 ? REMAT_ENDS_ABOVE : range.ends;
    if (!json_is_number(value) || !remat_range_has(&range, json_number_value(value)))
        return refuse(c, key, value, remat_range_text(&range).text);
    *out = json_number_value(value);
    return REMAT_OK;
}

static remat_status read_boolean(const struct config *c, const char *key, bool *out)
{
    const json_t *value = json_object_get(c->root, key);
    *out = json_is_true(value);
    return !is_given(value) || json_is_boolean(value) ? REMAT_OK
                                                      : refuse(c, key, value, "true, false");
}

static remat_status read_activation(const struct config *c, const struct config_key *row,
                                    const struct remat_activation **out)
{
    const json_t *value = json_object_get(c->root, row->name);
    const char *name = is_given(value) ? json_string_value(value) : row->text;
    *out = name ? remat_activation_find(name) : NULL;
    return *out ? REMAT_OK : refuse(c, row->name, value, remat_activation_names(c->arena));
}

static remat_status check_fixed(const struct config *c, const struct config_key *row)
{
    const json_t *value = json_object_get(c->root, row->name);
    json_t *expected = json_loads(row->text, JSON_DECODE_ANY, NULL);
    bool good = !is_given(value) || json_equal(value, expected);
    if (json_is_number(value) && json_is_number(expected))
        good = json_number_value(value) == json_number_value(expected);
    if (json_is_null(expected) && json_is_false(value))
        good = true;
    bool alike = json_is_boolean(value) && json_is_boolean(expected);
    json_decref(expected);
    if (good)
        return REMAT_OK;
    return row->kind == FOR_PLANS && alike ? leave_out(c, row->name, value, row->text)
                                           : refuse(c, row->name, value, row->text);
}

static remat_status check_equal(const struct config *c, const struct config_key *row)
{
    const json_t *value = json_object_get(c->root, row->name);
    if (!row->required && !is_given(value))
        return REMAT_OK;
    bool good = json_equal(value, json_object_get(c->root, row->text));
    return good ? REMAT_OK : refuse(c, row->name, value, row->text);
}

/* --- dropout --- */

static remat_status read_probability(const struct config *c, const struct config_key *row,
                                     double *out)
{
    const json_t *value = json_object_get(c->root, row->name);
    const struct remat_range range = remat_range_of("p");
    double p = is_given(value) ? json_number_value(value) : row->absent;
    if ((is_given(value) && !json_is_number(value)) || !remat_range_has(&range, p))
        return refuse(c, row->name, value, remat_range_text(&range).text);
    if (row->kind == NO_DROPOUT && p != 0)
        return refuse(c, row->name, value, "0, or --dropout to replace all of the file");
    *out = p;
    return REMAT_OK;
}

/* The first of the rows whose probabilities must agree with that of `row`. */
static const struct config_key *first_like(const struct config *c, const struct config_key *row)
{
    const struct config_key *first = keys;
    while (first->kind != DROPOUT || first->offset != row->offset || !(first->types & c->type))
        first++;
    return first;
}

/* Neither is 0: the graph's is the first, at the same cost. */
static remat_status unequal_dropout(const struct config *c, const struct config_key *row,
                                    double first, double p)
{
    const char *first_name = first_like(c, row)->name;
    if (c->plan_only && first > 0 && p > 0) {
        add_reason(
            c, REMAT_FORMAT(c->arena, "%s is %g and %s is %g", first_name, first, row->name, p));
        return REMAT_OK;
    }
    return remat_error(
        c->ctx, REMAT_ERROR_USAGE,
        "%s: %s is %g and %s is %g (accepted: equal ones, or --dropout to replace "
        "all of the file; with --plan-only, for a plan alone, also unequal ones above "
        "0)",
        c->path, first_name, first, row->name, p);
}

static remat_status read_dropout(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    s->attention_apart = true;
    for (const struct config_key *row = keys; row < keys + COUNT(keys); row++) {
        double p, *member = (double *)(void *)((char *)s + row->offset);
        if (!(row->types & c->type) || (row->kind != DROPOUT && row->kind != NO_DROPOUT))
            continue;
        REMAT_TRY(read_probability(c, row, &p));
        if (row->kind == NO_DROPOUT)
            continue;
        if (row == first_like(c, row))
            *member = p;
        else if (p != *member)
            REMAT_TRY(unequal_dropout(c, row, *member, p));
    }
fail:
    return st;
}

/* --- Llama's rotary positions --- */

/* Linear scaling slows all pairs down, as Llama 3's does in a context of 1: each has a longer
 * wavelength. */
static remat_status read_linear(const struct config *c, const char *key, const json_t *rope,
                                struct remat_model_settings *s)
{
    remat_status st = read_number(c, rope, "factor", "factor", &s->rope_factor);
    if (st == REMAT_OK && s->rope_factor < 1)
        return refuse(c, key, rope, "factor >= 1");
    s->rope_low = 1, s->rope_high = 4, s->rope_context = 1;
    return st;
}

static remat_status read_scaling(const struct config *c, const char *key, const json_t *rope,
                                 struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    double context = 0;
    s->rope_low = 1, s->rope_high = 4;
    REMAT_TRY(read_number(c, rope, "factor", "factor", &s->rope_factor));
    REMAT_TRY(read_number(c, rope, "low_freq_factor", "low", &s->rope_low));
    REMAT_TRY(read_number(c, rope, "high_freq_factor", "high", &s->rope_high));
    REMAT_TRY(read_number(c, rope, "original_max_position_embeddings", "context", &context));
    if (s->rope_factor < 1 || s->rope_high <= s->rope_low || context < 1 || context > SIZE_MOST)
        return refuse(c, key, rope,
                      "factor >= 1, low_freq_factor < high_freq_factor, original context");
    s->rope_context = (int64_t)context;
fail:
    return st;
}

/* The part of each head that positions turn. */
static remat_status read_partial(const struct config *c, const json_t *object)
{
    static const char key[] = "partial_rotary_factor";
    const json_t *value = json_object_get(object, key);
    double part = json_number_value(value);
    if (!is_given(value) || part == 1)
        return REMAT_OK;
    return part > 0 && part < 1 ? leave_out(c, key, value, "1")
                                : refuse(c, key, value, "more than 0 up to 1");
}

/* What the graph can do, and the rest. */
static const struct rope_type {
    const char *name;
    remat_status (*read)(const struct config *c, const char *key, const json_t *rope,
                         struct remat_model_settings *s); /* NULL: it changes nothing */
    bool left_out;
} rope_types[] = {
    {"default", NULL, false}, {"linear", read_linear, false}, {"llama3", read_scaling, false},
    {"dynamic", NULL, true},  {"yarn", NULL, true},           {"longrope", NULL, true},
    {"su", NULL, true}, /* longrope's old name */
};

static const struct rope_type *find_rope_type(const char *name)
{
    for (size_t k = 0; name && k < COUNT(rope_types); k++)
        if (strcmp(rope_types[k].name, name) == 0)
            return &rope_types[k];
    return NULL;
}

/* Keys of another type say what is left out. */
static remat_status check_rope_keys(const struct config *c, const json_t *rope)
{
    static const char *const known[] = {"rope_theta",
                                        "rope_type",
                                        "type",
                                        "factor",
                                        "low_freq_factor",
                                        "high_freq_factor",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)rope, name, value)
    {
        size_t k = 0;
        while (k < COUNT(known) && strcmp(name, known[k]) != 0)
            k++;
        if (k == COUNT(known) && is_given(value))
            return refuse(c, name, value, "absent");
    }
    return REMAT_OK;
}

/* rope_scaling has what rope_parameters has; there rope_theta stands beside it. */
static remat_status read_rope(const struct config *c, const char *key,
                              struct remat_model_settings *s)
{
    static const char accepted[] = "null or rope_type \"default\", \"linear\" or \"llama3\"";
    remat_status st = REMAT_OK;
    const json_t *rope = json_object_get(c->root, key);
    if (!is_given(rope))
        return REMAT_OK;
    const json_t *name = json_object_get(rope, "rope_type");
    name = is_given(name) ? name : json_object_get(rope, "type");
    const struct rope_type *type = find_rope_type(json_string_value(name));
    if (!type)
        return refuse(c, key, rope,
                      REMAT_FORMAT(c->arena,
                                   "%s; with --plan-only, for a plan alone, also \"dynamic\", "
                                   "\"yarn\" or \"longrope\"",
                                   accepted));
    REMAT_TRY(read_number(c, rope, "rope_theta", "theta", &s->theta));
    REMAT_TRY(read_partial(c, rope));
    if (type->left_out)
        return leave_out(c, c->plan_only ? "rope_type" : key, c->plan_only ? name : rope, accepted);
    REMAT_TRY(check_rope_keys(c, rope));
    if (type->read)
        REMAT_TRY(type->read(c, key, rope, s));
fail:
    return st;
}

/* Where no layer slides its window has no effect. */
static remat_status read_layer_types(const struct config *c, struct remat_model_settings *s)
{
    const json_t *list = json_object_get(c->root, "layer_types");
    bool slides = !is_given(list);
    if (is_given(list) && !json_is_array(list))
        return refuse(c, "layer_types", list, "a list");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *value = json_array_get(list, k);
        const char *name = json_string_value(value);
        bool sliding = name && strcmp(name, "sliding_attention") == 0;
        if (!name || (!sliding && strcmp(name, "full_attention") != 0))
            return refuse(c, "layer_types", value, "full_attention, sliding_attention");
        slides |= sliding;
    }
    s->window = slides ? s->window : 0;
    return REMAT_OK;
}

/* A size of heads that is the usual one follows --width and --heads. */
static remat_status read_llama(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const json_t *scaling = json_object_get(c->root, "rope_scaling");
    const json_t *kv_heads = json_object_get(c->root, "num_key_value_heads");
    if (s->head_size * s->heads == s->width)
        s->head_size = 0;
    if (is_given(kv_heads) && s->heads % s->kv_heads != 0)
        return refuse(
            c, "num_key_value_heads", kv_heads,
            REMAT_FORMAT(c->arena, "divisors of num_attention_heads, %" PRId64, s->heads));
    if (is_given(scaling) && is_given(json_object_get(c->root, "rope_parameters")))
        return refuse(c, "rope_scaling", scaling, "null beside rope_parameters");
    REMAT_TRY(read_rope(c, "rope_scaling", s));
    REMAT_TRY(read_rope(c, "rope_parameters", s));
    REMAT_TRY(read_partial(c, c->root));
    REMAT_TRY(read_layer_types(c, s));
fail:
    return st;
}

/* --- GPT-BigCode's heads --- */

static remat_status read_bigcode(const struct config *c, struct remat_model_settings *s)
{
    static const char key[] = "num_key_value_heads";
    const json_t *value = json_object_get(c->root, key);
    s->kv_heads = s->by_head ? s->heads : 1;
    if (is_given(value) && (!json_is_integer(value) || json_integer_value(value) != s->kv_heads))
        return refuse(c, key, value,
                      REMAT_FORMAT(c->arena, "%" PRId64 ", as multi_query says", s->kv_heads));
    s->kv_heads = s->by_head ? 0 : 1;
    return REMAT_OK;
}

/* NULL: not known. */
static const char *what_lacks(const char *type)
{
    static const struct {
        const char *type, *what;
    } rows[] = {
#define UNSUPPORTED(type, what) {type, what},
#include "unsupported.def"
#undef UNSUPPORTED
    };
    for (size_t k = 0; k < COUNT(rows); k++)
        if (strcmp(rows[k].type, type) == 0)
            return rows[k].what;
    return NULL;
}

static remat_status read_type(struct config *c, struct remat_model_settings *s)
{
    const json_t *value = json_object_get(c->root, "model_type");
    const char *name = json_string_value(value);
    for (size_t k = 0; name && k < COUNT(types); k++) {
        if (strcmp(types[k].settings.name, name) != 0)
            continue;
        c->type = types[k].set;
        *s = types[k].settings;
        return REMAT_OK;
    }
    const char *lacks = name ? what_lacks(name) : NULL;
    return remat_error(c->ctx, REMAT_ERROR_USAGE,
                       "%s: %s%s%s (accepted: %s; a graph of any other model can be written as "
                       "text, docs/ir.md)",
                       c->path, describe(c, "model_type", value), lacks ? ": " : "",
                       lacks ? lacks : "", remat_config_types(c->arena));
}

static remat_status read_key(const struct config *c, const struct config_key *row,
                             struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    char *member = (char *)s + row->offset;
    int64_t size = (int64_t)row->absent;
    double number = row->absent;
    bool flag;
    switch (row->kind) {
    case SIZE:
        REMAT_TRY(read_integer(c, row, &size));
        memcpy(member, &size, sizeof size);
        return REMAT_OK;
    case NUMBER:
        REMAT_TRY(read_number(c, c->root, row->name, row->text, &number));
        memcpy(member, &number, sizeof number);
        return REMAT_OK;
    case BOOLEAN:
        REMAT_TRY(read_boolean(c, row->name, &flag));
        memcpy(member, &flag, sizeof flag);
        return REMAT_OK;
    case DEPARTURE:
        REMAT_TRY(read_boolean(c, row->name, &flag));
        flag = is_given(json_object_get(c->root, row->name)) && flag != (row->absent != 0);
        memcpy(member, &flag, sizeof flag);
        return REMAT_OK;
    case SWITCH:
        REMAT_TRY(read_boolean(c, row->name, &flag));
        if (!flag)
            memset(member, 0, sizeof size);
        return REMAT_OK;
    case ACTIVATION:
        return read_activation(c, row, &s->activation);
    case FIXED:
    case FOR_PLANS:
        return check_fixed(c, row);
    case EQUAL:
        return check_equal(c, row);
    default:
        return REMAT_OK;
    }
fail:
    return st;
}

static remat_status check_known(const struct config *c)
{
    const char *name;
    json_t *value;
    json_object_foreach(c->root, name, value)
    {
        const struct config_key *row = keys;
        while (row < keys + COUNT(keys) &&
               !((row->types & c->type) && strcmp(row->name, name) == 0))
            row++;
        if (row == keys + COUNT(keys) && is_given(value))
            return refuse(c, name, value,
                          c->plan_only ? "absent: this key is unknown; delete it if it changes "
                                         "neither memory nor time"
                                       : "absent: this key is unknown; delete it if it has no "
                                         "effect on training");
    }
    return REMAT_OK;
}

static remat_status read_root(void *user)
{
    remat_status st = REMAT_OK;
    struct config *c = user;
    struct remat_model_settings *s = c->out;
    REMAT_TRY(read_type(c, s));
    REMAT_TRY(check_known(c));
    for (const struct config_key *row = keys; row < keys + COUNT(keys); row++)
        if (row->types & c->type)
            REMAT_TRY(read_key(c, row, s));
    if (c->with_dropout)
        REMAT_TRY(read_dropout(c, s));
    if (s->family == REMAT_FAMILY_llama)
        REMAT_TRY(read_llama(c, s));
    if (c->type == bigcode)
        REMAT_TRY(read_bigcode(c, s));
    s->seq = s->context < DEFAULT_SEQ ? s->context : DEFAULT_SEQ;
    if (s->window > 0 && s->window < s->seq)
        s->seq = s->window;
fail:
    return st;
}

/* With as few digits as give the same numbers again. NULL: out of memory, which the tool tells at
 * its end. */
static const char *print_root(struct remat_arena *arena, const json_t *root)
{
    static const size_t digits[] = {15, 17};
    char *text = NULL;
    bool equal = false;
    for (size_t k = 0; !equal && k < COUNT(digits); k++) {
        free(text);
        text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits[k]));
        json_t *again = text ? json_loads(text, 0, NULL) : NULL;
        equal = json_equal(root, again);
        json_decref(again);
    }
    const char *out = text ? remat_arena_string(arena, text, strlen(text)) : NULL;
    free(text);
    return out;
}

remat_status remat_model_config_parse(remat_context *ctx, struct remat_arena *arena,
                                      const char *path, const char *data, size_t bytes,
                                      bool with_dropout, bool plan_only,
                                      struct remat_model_settings *out)
{
    remat_status st = REMAT_OK;
    struct config c = {.ctx = ctx,
                       .arena = arena,
                       .path = path,
                       .with_dropout = with_dropout,
                       .plan_only = plan_only,
                       .out = out};
    json_error_t error;
    c.root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!c.root)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d: %s", path, error.line, error.text);
    if (!json_is_object(c.root))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: not a JSON object", path);
    REMAT_TRY(remat_guard(ctx, read_root, &c)); /* which frees no JSON */
    remat_model_defaults(out);
    out->config = print_root(arena, c.root);
fail:
    json_decref(c.root);
    return st;
}

remat_status remat_model_config(remat_context *ctx, struct remat_arena *arena, const char *path,
                                bool with_dropout, bool plan_only, struct remat_model_settings *out)
{
    char *data;
    size_t bytes;
    remat_status st = remat_file_read(ctx, path, arena, &data, &bytes);
    return st == REMAT_OK ? remat_model_config_parse(ctx, arena, path, data, bytes, with_dropout,
                                                     plan_only, out)
                          : st;
}

/* --- writing --- */

static json_t *make_value(const struct config_key *row, const struct remat_model_settings *s)
{
    const char *member = (const char *)s + row->offset;
    int64_t size;
    double number;
    bool flag;
    memcpy(&size, member, sizeof size);
    memcpy(&number, member, sizeof number);
    memcpy(&flag, member, sizeof flag);
    switch (row->kind) {
    case SIZE:
        return size ? json_integer(size) : NULL;
    case NUMBER:
    case DROPOUT:
        return json_real(number);
    case BOOLEAN:
        return json_boolean(flag);
    case ACTIVATION:
        return json_string(remat_activation_name(s->activation));
    case FIXED: /* what an absent key means, unless it must be there */
        return row->required ? json_loads(row->text, JSON_DECODE_ANY, NULL) : NULL;
    case NO_DROPOUT:
        return json_real(0);
    default:
        return NULL;
    }
}

/* What keys of other forms say, where no file does. */
static json_t *make_others(const struct remat_model_settings *s)
{
    json_int_t last = s->vocab - 1;
    switch (s->family) {
    case REMAT_FAMILY_gpt2:
        return json_pack("{s:I,s:I}", "bos_token_id", last, "eos_token_id", last);
    case REMAT_FAMILY_encdec:
        return json_pack("{s:I,s:I,s:i,s:i}", "pad_token_id", last, "decoder_start_token_id", last,
                         "eos_token_id", 0, "forced_eos_token_id", 0);
    case REMAT_FAMILY_llama:
        return s->rope_factor > 0
                   ? json_pack("{s:{s:s,s:f,s:f,s:f,s:I}}", "rope_scaling", "rope_type", "llama3",
                               "factor", s->rope_factor, "low_freq_factor", s->rope_low,
                               "high_freq_factor", s->rope_high, "original_max_position_embeddings",
                               (json_int_t)s->rope_context)
                   : json_object();
    default:
        return json_object();
    }
}

/* That of the file, or the first of the family. */
static const struct type *type_of(const json_t *root, const struct remat_model_settings *s)
{
    const char *name = json_string_value(json_object_get(root, "model_type"));
    for (size_t k = 0; k < COUNT(types); k++)
        if (name ? strcmp(types[k].settings.name, name) == 0
                 : types[k].settings.family == s->family)
            return &types[k];
    return NULL;
}

/* Whether the library has the model: only Llama's heads of keys and values are of any number. */
static bool has_model(const struct type *type, const struct remat_model_settings *s)
{
    bool one_kv_head = type->set == bigcode && !s->by_head;
    return s->family != REMAT_FAMILY_gpt2 ||
           (!s->no_bias && s->kv_heads == (one_kv_head ? 1 : s->heads));
}

static void set_values(json_t *root, const struct type *type, const struct remat_model_settings *s)
{
    for (const struct config_key *row = keys; row < keys + COUNT(keys); row++) {
        json_t *value = row->types & type->set ? make_value(row, s) : NULL;
        if (value)
            json_object_set_new(root, row->name, value);
    }
    if (type->set == bigcode)
        json_object_set_new(root, "num_key_value_heads", json_integer(s->kv_heads));
    for (const struct config_key *row = keys; row < keys + COUNT(keys); row++)
        if ((row->types & type->set) && row->kind == EQUAL &&
            (row->required || is_given(json_object_get(root, row->name))))
            json_object_set(root, row->name, json_object_get(root, row->text));
}

/* A token below the vocabulary's size, or a list of which those stay; else null. */
static json_t *make_token(const json_t *value, int64_t vocab)
{
    json_t *list = json_is_array(value) ? json_array() : NULL;
    for (size_t k = 0; k < json_array_size(value); k++)
        if (json_integer_value(json_array_get(value, k)) < vocab)
            json_array_append(list, json_array_get(value, k));
    bool none = list ? json_array_size(list) == 0 : json_integer_value(value) >= vocab;
    if (list && !none)
        return list;
    json_decref(list);
    return none ? json_null() : json_deep_copy(value);
}

/* What the file says of layers and tokens that the settings have left out. */
static void cut_values(json_t *root, const struct remat_model_settings *s)
{
    static const char token[] = "_token_id";
    const char *name;
    json_t *value;
    void *next;
    json_t *layers = json_object_get(root, "layer_types");
    while (json_array_size(layers) > (size_t)s->layers)
        json_array_remove(layers, json_array_size(layers) - 1);
    json_object_foreach_safe(root, next, name, value)
    {
        size_t length = strlen(name);
        if (length >= sizeof token && strcmp(name + length - (sizeof token - 1), token) == 0)
            json_object_set_new(root, name, make_token(value, s->vocab));
    }
}

const char *remat_model_config_text(struct remat_arena *arena,
                                    const struct remat_model_settings *settings)
{
    struct remat_model_settings s = *settings;
    json_t *root = s.config ? json_loads(s.config, 0, NULL) : json_object();
    const struct type *type = type_of(root, &s);
    const char *text = NULL;
    remat_model_complete(&s);
    if (type && has_model(type, &s)) {
        json_t *others = s.config ? NULL : make_others(&s);
        json_object_set_new(root, "model_type", json_string(type->settings.name));
        json_object_set_new(root, "architectures", json_pack("[s]", type->architecture));
        json_object_update(root, others);
        json_decref(others);
        set_values(root, type, &s);
        cut_values(root, &s);
        text = print_root(arena, root);
    }
    json_decref(root);
    return text && strlen(text) <= TEXT_BYTES_MOST ? text : NULL;
}
