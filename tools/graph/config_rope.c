/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions of the Llama family's models, and which layers slide a window. */
#include "config_reader.h"

#include "range.h"

/* Linear scaling slows all pairs down, as Llama 3's does in a context of 1: each has a longer
 * wavelength. */
static remat_status read_linear(const struct config *c, const char *key, const json_t *rope,
                                struct remat_model_settings *s)
{
    remat_status st = config_read_number(c, rope, "factor", "factor", &s->rope_factor);
    if (st == REMAT_OK && s->rope_factor < 1)
        return config_refuse(c, key, rope, "factor >= 1");
    s->rope_low = 1, s->rope_high = 4, s->rope_context = 1;
    return st;
}

static remat_status read_scaling(const struct config *c, const char *key, const json_t *rope,
                                 struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    double context = 0;
    s->rope_low = 1, s->rope_high = 4;
    REMAT_TRY(config_read_number(c, rope, "factor", "factor", &s->rope_factor));
    REMAT_TRY(config_read_number(c, rope, "low_freq_factor", "low", &s->rope_low));
    REMAT_TRY(config_read_number(c, rope, "high_freq_factor", "high", &s->rope_high));
    REMAT_TRY(config_read_number(c, rope, "original_max_position_embeddings", "context", &context));
    if (s->rope_factor < 1 || s->rope_high <= s->rope_low || context < 1 || context > SIZE_MOST)
        return config_refuse(c, key, rope,
                             "factor >= 1, low_freq_factor < high_freq_factor, original context");
    s->rope_context = (int64_t)context;
fail:
    return st;
}

/* The part of each head that positions turn: Phi-3's; transformers has no other model with one. */
static remat_status read_partial(const struct config *c, const json_t *object,
                                 struct remat_model_settings *s)
{
    static const char key[] = "partial_rotary_factor";
    const json_t *value = json_object_get(object, key);
    double part = json_number_value(value);
    if (!config_has(value) || part == 1)
        return REMAT_OK;
    if (!(part > 0 && part < 1))
        return config_refuse(c, key, value, "more than 0 up to 1");
    if (c->type != phi3)
        return config_leave_out(c, key, value, "1");
    s->rotary_part = part;
    return REMAT_OK;
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
    for (size_t k = 0; name && k < sizeof rope_types / sizeof *rope_types; k++)
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
        while (k < sizeof known / sizeof *known && strcmp(name, known[k]) != 0)
            k++;
        if (k == sizeof known / sizeof *known && config_has(value))
            return config_refuse(c, name, value, "absent");
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
    if (!config_has(rope))
        return REMAT_OK;
    const json_t *name = json_object_get(rope, "rope_type");
    name = config_has(name) ? name : json_object_get(rope, "type");
    const struct rope_type *type = find_rope_type(json_string_value(name));
    if (!type)
        return config_refuse(
            c, key, rope,
            REMAT_FORMAT(c->arena,
                         "%s; with --plan-only, for a plan alone, also \"dynamic\", "
                         "\"yarn\" or \"longrope\"",
                         accepted));
    REMAT_TRY(config_read_number(c, rope, "rope_theta", "theta", &s->theta));
    REMAT_TRY(read_partial(c, rope, s));
    if (type->left_out)
        return config_leave_out(c, c->plan_only ? "rope_type" : key, c->plan_only ? name : rope,
                                accepted);
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
    bool slides = !config_has(list);
    if (config_has(list) && !json_is_array(list))
        return config_refuse(c, "layer_types", list, "a list");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *value = json_array_get(list, k);
        const char *name = json_string_value(value);
        bool sliding = name && strcmp(name, "sliding_attention") == 0;
        if (!name || (!sliding && strcmp(name, "full_attention") != 0))
            return config_refuse(c, "layer_types", value, "full_attention, sliding_attention");
        slides |= sliding;
    }
    s->window = slides ? s->window : 0;
    return REMAT_OK;
}

remat_status config_read_rope(const struct config *c, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const json_t *scaling = json_object_get(c->root, "rope_scaling");
    if (config_has(scaling) && config_has(json_object_get(c->root, "rope_parameters")))
        return config_refuse(c, "rope_scaling", scaling, "null beside rope_parameters");
    REMAT_TRY(read_rope(c, "rope_scaling", s));
    REMAT_TRY(read_rope(c, "rope_parameters", s));
    REMAT_TRY(read_partial(c, c->root, s));
    REMAT_TRY(read_layer_types(c, s));
fail:
    return st;
}
