/* Tables of what is read from a config.json and of what it may not say. */
#include "config.h"

#include <jansson.h>
#include <stddef.h>

#define DEFAULT_SEQ 2048
#define SIZE_MOST   (1 << 24)

static const struct type {
    const char *name; /* "model_type" */
    enum remat_model_family family;
} types[] = {{"gpt2", REMAT_FAMILY_gpt2},
             {"llama", REMAT_FAMILY_llama},
             {"bert", REMAT_FAMILY_bert},
             {"marian", REMAT_FAMILY_encdec}};

#define SIZE(family, key, member, optional)                                                        \
    {                                                                                              \
        REMAT_FAMILY_##family, key, offsetof(struct remat_model_settings, member), optional        \
    }
static const struct size {
    enum remat_model_family family;
    const char *key;
    size_t offset;
    bool optional; /* may be absent or null */
} sizes[] = {
    SIZE(gpt2, "n_layer", layers, false),
    SIZE(gpt2, "n_embd", width, false),
    SIZE(gpt2, "n_head", heads, false),
    SIZE(gpt2, "n_inner", hidden, true),
    SIZE(gpt2, "vocab_size", vocab, false),
    SIZE(gpt2, "n_positions", context, false),
    SIZE(llama, "num_hidden_layers", layers, false),
    SIZE(llama, "hidden_size", width, false),
    SIZE(llama, "num_attention_heads", heads, false),
    SIZE(llama, "num_key_value_heads", kv_heads, true),
    SIZE(llama, "intermediate_size", hidden, false),
    SIZE(llama, "vocab_size", vocab, false),
    SIZE(llama, "max_position_embeddings", context, false),
    SIZE(bert, "num_hidden_layers", layers, false),
    SIZE(bert, "hidden_size", width, false),
    SIZE(bert, "num_attention_heads", heads, false),
    SIZE(bert, "intermediate_size", hidden, false),
    SIZE(bert, "vocab_size", vocab, false),
    SIZE(bert, "max_position_embeddings", context, false),
    SIZE(encdec, "encoder_layers", layers, false),
    SIZE(encdec, "d_model", width, false),
    SIZE(encdec, "encoder_attention_heads", heads, false),
    SIZE(encdec, "encoder_ffn_dim", hidden, false),
    SIZE(encdec, "vocab_size", vocab, false),
    SIZE(encdec, "max_position_embeddings", context, false),
};

/* `value`, as JSON, is the only one that is supported, and what an absent key means unless it is
 * required. */
static const struct fixed {
    enum remat_model_family family;
    const char *key, *value;
    bool required;
} fixed[] = {
    {REMAT_FAMILY_gpt2, "activation_function", "\"gelu_new\"", false},
    {REMAT_FAMILY_gpt2, "scale_attn_weights", "true", false},
    {REMAT_FAMILY_gpt2, "scale_attn_by_inverse_layer_idx", "false", false},
    {REMAT_FAMILY_gpt2, "add_cross_attention", "false", false},
    {REMAT_FAMILY_gpt2, "tie_word_embeddings", "true", false},
    {REMAT_FAMILY_llama, "hidden_act", "\"silu\"", false},
    {REMAT_FAMILY_llama, "attention_bias", "false", false},
    {REMAT_FAMILY_llama, "mlp_bias", "false", false},
    {REMAT_FAMILY_llama, "sliding_window", "null", false},
    {REMAT_FAMILY_llama, "quantization_config", "null", false},
    {REMAT_FAMILY_bert, "hidden_act", "\"gelu\"", false},
    {REMAT_FAMILY_bert, "position_embedding_type", "\"absolute\"", false},
    {REMAT_FAMILY_bert, "type_vocab_size", "2", false},
    {REMAT_FAMILY_bert, "is_decoder", "false", false},
    {REMAT_FAMILY_bert, "tie_word_embeddings", "true", false},
    {REMAT_FAMILY_encdec, "activation_function", "\"relu\"", true},
    {REMAT_FAMILY_encdec, "scale_embedding", "true", true},
    {REMAT_FAMILY_encdec, "share_encoder_decoder_embeddings", "true", false},
    {REMAT_FAMILY_encdec, "tie_word_embeddings", "true", false},
};

/* Settings that have to agree. */
static const struct equal {
    enum remat_model_family family;
    const char *key, *other;
} equals[] = {
    {REMAT_FAMILY_encdec, "decoder_layers", "encoder_layers"},
    {REMAT_FAMILY_encdec, "decoder_attention_heads", "encoder_attention_heads"},
    {REMAT_FAMILY_encdec, "decoder_ffn_dim", "encoder_ffn_dim"},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

struct config {
    remat_context *ctx;
    const char *path;
    json_t *root;
};

/* "PATH: KEY is VALUE (accepted: ACCEPTED)" */
static remat_status refuse(const struct config *c, const char *key, const json_t *value,
                           const char *accepted)
{
    char text[80];
    size_t length = value ? json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY) : 0;
    text[length < sizeof text ? length : sizeof text - 1] = '\0';
    return remat_error(c->ctx, REMAT_ERROR_USAGE, "%s: %s is %s (accepted: %s)", c->path, key,
                       value ? text : "missing", accepted);
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

static remat_status read_integer(const struct config *c, const char *key, bool optional,
                                 int64_t *out)
{
    const json_t *value = json_object_get(c->root, key);
    if (!is_given(value) && optional)
        return REMAT_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > SIZE_MOST)
        return refuse(c, key, value, "1 to 16777216");
    *out = json_integer_value(value);
    return REMAT_OK;
}

/* A number above 0; *out stays where the key is absent. */
static remat_status read_number(const struct config *c, const json_t *object, const char *key,
                                double *out)
{
    const json_t *value = json_object_get(object, key);
    if (!is_given(value))
        return REMAT_OK;
    if (!json_is_number(value) || !(json_number_value(value) > 0))
        return refuse(c, key, value, "a number above 0");
    *out = json_number_value(value);
    return REMAT_OK;
}

static remat_status check_fixed(const struct config *c, const struct fixed *row)
{
    const json_t *value = json_object_get(c->root, row->key);
    bool empty = !is_given(value);
    json_t *expected = json_loads(row->value, JSON_DECODE_ANY, NULL);
    bool good = empty ? !row->required : expected && json_equal(value, expected);
    bool off = json_is_null(expected) && json_is_false(value);
    json_decref(expected);
    return good || off ? REMAT_OK : refuse(c, row->key, value, row->value);
}

static remat_status read_rope_scaling(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const json_t *scaling = json_object_get(c->root, "rope_scaling");
    double context = 0;
    if (!is_given(scaling))
        return REMAT_OK;
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    if (!type || strcmp(type, "llama3") != 0)
        return refuse(c, "rope_scaling", scaling, "null or rope_type \"llama3\"");
    s->rope_low = 1, s->rope_high = 4;
    REMAT_TRY(read_number(c, scaling, "factor", &s->rope_factor));
    REMAT_TRY(read_number(c, scaling, "low_freq_factor", &s->rope_low));
    REMAT_TRY(read_number(c, scaling, "high_freq_factor", &s->rope_high));
    REMAT_TRY(read_number(c, scaling, "original_max_position_embeddings", &context));
    if (s->rope_factor < 1 || s->rope_high <= s->rope_low || context < 1 || context > SIZE_MOST)
        return refuse(c, "rope_scaling", scaling,
                      "factor >= 1, low_freq_factor < high_freq_factor, original context");
    s->rope_context = (int64_t)context;
fail:
    return st;
}

static remat_status read_llama(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    int64_t head = s->width / s->heads;
    const json_t *tied = json_object_get(c->root, "tie_word_embeddings");
    REMAT_TRY(read_number(c, c->root, "rms_norm_eps", &s->epsilon));
    REMAT_TRY(read_number(c, c->root, "rope_theta", &s->theta));
    REMAT_TRY(read_integer(c, "head_dim", true, &head));
    if (head != s->width / s->heads)
        return refuse(c, "head_dim", json_object_get(c->root, "head_dim"),
                      "hidden_size / num_attention_heads");
    REMAT_TRY(read_rope_scaling(c, s));
    s->tied = json_is_true(tied);
fail:
    return st;
}

static remat_status read_rest(const struct config *c, struct remat_model_settings *s)
{
    switch (s->family) {
    case REMAT_FAMILY_gpt2:
        return read_number(c, c->root, "layer_norm_epsilon", &s->epsilon);
    case REMAT_FAMILY_bert:
        return read_number(c, c->root, "layer_norm_eps", &s->epsilon);
    case REMAT_FAMILY_llama:
        return read_llama(c, s);
    default:
        return REMAT_OK;
    }
}

static remat_status read_type(const struct config *c, struct remat_model_settings *s)
{
    const json_t *value = json_object_get(c->root, "model_type");
    const char *name = json_string_value(value);
    for (size_t k = 0; name && k < COUNT(types); k++)
        if (strcmp(types[k].name, name) == 0) {
            s->family = types[k].family;
            s->name = types[k].name;
            return REMAT_OK;
        }
    return refuse(c, "model_type", value, "gpt2, llama, bert, marian");
}

static remat_status read_root(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(read_type(c, s));
    for (size_t k = 0; k < COUNT(fixed); k++)
        if (fixed[k].family == s->family)
            REMAT_TRY(check_fixed(c, &fixed[k]));
    for (size_t k = 0; k < COUNT(sizes); k++)
        if (sizes[k].family == s->family) {
            int64_t value = 0;
            REMAT_TRY(read_integer(c, sizes[k].key, sizes[k].optional, &value));
            memcpy((char *)s + sizes[k].offset, &value, sizeof value);
        }
    for (size_t k = 0; k < COUNT(equals); k++) {
        const json_t *value = json_object_get(c->root, equals[k].key);
        if (equals[k].family == s->family &&
            !json_equal(value, json_object_get(c->root, equals[k].other)))
            return refuse(c, equals[k].key, value, equals[k].other);
    }
    REMAT_TRY(read_rest(c, s));
    s->seq = s->context < DEFAULT_SEQ ? s->context : DEFAULT_SEQ;
fail:
    return st;
}

remat_status remat_model_config(remat_context *ctx, struct remat_arena *arena, const char *path,
                                struct remat_model_settings *out)
{
    remat_status st = REMAT_OK;
    struct config c = {ctx, path, NULL};
    json_error_t error;
    char *data;
    size_t bytes;
    *out = (struct remat_model_settings){0};
    remat_model_defaults(out);
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    c.root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!c.root)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d: %s", path, error.line, error.text);
    REMAT_TRY(read_root(&c, out));
fail:
    json_decref(c.root);
    return st;
}
