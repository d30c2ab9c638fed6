/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "activation.h"
#include "config_keys.h"

#define TEXT_BYTES_MOST 65535 /* docs/formats.md */

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
        return json_string(s->activation->name);
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
static const struct config_type *type_of(const json_t *root, const struct remat_model_settings *s)
{
    const char *name = json_string_value(json_object_get(root, "model_type"));
    for (const struct config_type *type = config_types; type->set; type++)
        if (name ? strcmp(type->settings.name, name) == 0 : type->settings.family == s->family)
            return type;
    return NULL;
}

/* Whether the library has the model: only Llama's heads of keys and values are of any number. */
static bool has_model(const struct config_type *type, const struct remat_model_settings *s)
{
    bool one_kv_head = type->set == bigcode && !s->by_head;
    return s->family != REMAT_FAMILY_gpt2 ||
           (!s->no_bias && s->kv_heads == (one_kv_head ? 1 : s->heads));
}

static void set_values(json_t *root, const struct config_type *type,
                       const struct remat_model_settings *s)
{
    for (const struct config_key *row = config_keys; row->name; row++) {
        json_t *value = row->types & type->set ? make_value(row, s) : NULL;
        if (value)
            json_object_set_new(root, row->name, value);
    }
    if (type->set == bigcode)
        json_object_set_new(root, "num_key_value_heads", json_integer(s->kv_heads));
    for (const struct config_key *row = config_keys; row->name; row++)
        if ((row->types & type->set) && row->kind == EQUAL &&
            (row->required || config_has(json_object_get(root, row->name))))
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
    const struct config_type *type = type_of(root, &s);
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
        text = config_print(arena, root);
    }
    json_decref(root);
    return text && strlen(text) <= TEXT_BYTES_MOST ? text : NULL;
}
