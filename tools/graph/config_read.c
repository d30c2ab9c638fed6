/* SPDX-License-Identifier: Apache-2.0 */
/* Each key of the file is a row of config.def; a loop over the rows reads what they say, one over
 * the file's keys finds those without a row. */
#include "config.h"

#include "activation.h"
#include "config_reader.h"
#include "file.h"
#include "range.h"

#include <inttypes.h>
#include <jansson.h>

#define DEFAULT_SEQ 2048

static remat_status read_activation(const struct config *c, const struct config_key *row,
                                    const struct remat_activation **out)
{
    const json_t *value = json_object_get(c->root, row->name);
    const char *name = config_has(value) ? json_string_value(value) : row->text;
    *out = name ? remat_activation_find(name) : NULL;
    return *out ? REMAT_OK : config_refuse(c, row->name, value, remat_activation_names(c->arena));
}

static remat_status check_fixed(const struct config *c, const struct config_key *row)
{
    const json_t *value = json_object_get(c->root, row->name);
    json_t *expected = json_loads(row->text, JSON_DECODE_ANY, NULL);
    bool good = !config_has(value) || json_equal(value, expected);
    if (json_is_number(value) && json_is_number(expected))
        good = json_number_value(value) == json_number_value(expected);
    if (json_is_null(expected) && json_is_false(value))
        good = true;
    bool alike = json_is_boolean(value) && json_is_boolean(expected);
    json_decref(expected);
    if (good)
        return REMAT_OK;
    return row->kind == FOR_PLANS && alike ? config_leave_out(c, row->name, value, row->text)
                                           : config_refuse(c, row->name, value, row->text);
}

static remat_status check_equal(const struct config *c, const struct config_key *row)
{
    const json_t *value = json_object_get(c->root, row->name);
    if (!row->required && !config_has(value))
        return REMAT_OK;
    bool good = json_equal(value, json_object_get(c->root, row->text));
    return good ? REMAT_OK : config_refuse(c, row->name, value, row->text);
}

/* --- dropout --- */

static remat_status read_probability(const struct config *c, const struct config_key *row,
                                     double *out)
{
    const json_t *value = json_object_get(c->root, row->name);
    const struct remat_range range = remat_range_of("p");
    double p = config_has(value) ? json_number_value(value) : row->absent;
    if ((config_has(value) && !json_is_number(value)) || !remat_range_has(&range, p))
        return config_refuse(c, row->name, value, remat_range_text(&range).text);
    if (row->kind == NO_DROPOUT && p != 0)
        return config_refuse(c, row->name, value, "0, or --dropout to replace all of the file");
    *out = p;
    return REMAT_OK;
}

/* The first of the rows whose probabilities must agree with that of `row`. */
static const struct config_key *first_like(const struct config *c, const struct config_key *row)
{
    const struct config_key *first = config_keys;
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
        config_add_reason(
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
    for (const struct config_key *row = config_keys; row->name; row++) {
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

/* --- heads --- */

/* A size of heads that is the usual one follows --width and --heads. */
static remat_status read_llama(const struct config *c, struct remat_model_settings *s)
{
    const json_t *kv_heads = json_object_get(c->root, "num_key_value_heads");
    if (s->head_size * s->heads == s->width)
        s->head_size = 0;
    if (config_has(kv_heads) && s->heads % s->kv_heads != 0)
        return config_refuse(
            c, "num_key_value_heads", kv_heads,
            REMAT_FORMAT(c->arena, "divisors of num_attention_heads, %" PRId64, s->heads));
    return config_read_rope(c, s);
}

static remat_status read_bigcode(const struct config *c, struct remat_model_settings *s)
{
    static const char key[] = "num_key_value_heads";
    const json_t *value = json_object_get(c->root, key);
    s->kv_heads = s->by_head ? s->heads : 1;
    if (config_has(value) && (!json_is_integer(value) || json_integer_value(value) != s->kv_heads))
        return config_refuse(
            c, key, value, REMAT_FORMAT(c->arena, "%" PRId64 ", as multi_query says", s->kv_heads));
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
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].type, type) == 0)
            return rows[k].what;
    return NULL;
}

static remat_status read_type(struct config *c, struct remat_model_settings *s)
{
    const json_t *value = json_object_get(c->root, "model_type");
    const char *name = json_string_value(value);
    for (const struct config_type *type = config_types; name && type->set; type++) {
        if (strcmp(type->settings.name, name) != 0)
            continue;
        c->type = type->set;
        *s = type->settings;
        return REMAT_OK;
    }
    const char *lacks = name ? what_lacks(name) : NULL;
    return remat_error(c->ctx, REMAT_ERROR_USAGE,
                       "%s: %s%s%s (accepted: %s; a graph of any other model can be written as "
                       "text, docs/ir.md)",
                       c->path, config_describe(c, "model_type", value), lacks ? ": " : "",
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
        REMAT_TRY(config_read_integer(c, row, &size));
        memcpy(member, &size, sizeof size);
        return REMAT_OK;
    case NUMBER:
        REMAT_TRY(config_read_number(c, c->root, row->name, row->text, &number));
        memcpy(member, &number, sizeof number);
        return REMAT_OK;
    case BOOLEAN:
        REMAT_TRY(config_read_boolean(c, row->name, &flag));
        memcpy(member, &flag, sizeof flag);
        return REMAT_OK;
    case DEPARTURE:
        REMAT_TRY(config_read_boolean(c, row->name, &flag));
        flag = config_has(json_object_get(c->root, row->name)) && flag != (row->absent != 0);
        memcpy(member, &flag, sizeof flag);
        return REMAT_OK;
    case SWITCH:
        REMAT_TRY(config_read_boolean(c, row->name, &flag));
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
        const struct config_key *row = config_keys;
        while (row->name && !((row->types & c->type) && strcmp(row->name, name) == 0))
            row++;
        if (!row->name && config_has(value))
            return config_refuse(c, name, value,
                                 c->plan_only
                                     ? "absent: this key is unknown; delete it if it changes "
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
    for (const struct config_key *row = config_keys; row->name; row++)
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
    out->config = config_print(arena, c.root);
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
