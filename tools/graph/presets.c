/* SPDX-License-Identifier: Apache-2.0 */
/* Presets by name; other names get advice. */
#include "config.h"
#include "models.h"
#include "suggest.h"

#include <unistd.h>

static const struct remat_model_settings presets[] = {
#define PRESET(preset, of_family, ...)                                                             \
    {.name = preset, .family = REMAT_FAMILY_##of_family, __VA_ARGS__},
#define ALIAS(alias, preset)
#include "models.def"
#undef PRESET
#undef ALIAS
};
static const struct alias {
    const char *name, *preset;
} aliases[] = {
#define PRESET(...)
#define ALIAS(alias, of) {alias, of},
#include "models.def"
#undef PRESET
#undef ALIAS
};
#define PRESET_COUNT (sizeof presets / sizeof presets[0])
#define ALIAS_COUNT  (sizeof aliases / sizeof aliases[0])

const char *remat_model_name(uint32_t preset)
{
    return preset < PRESET_COUNT ? presets[preset].name : NULL;
}

const char *remat_model_alias(const char *preset)
{
    for (size_t k = 0; k < ALIAS_COUNT; k++)
        if (strcmp(aliases[k].preset, preset) == 0)
            return aliases[k].name;
    return NULL;
}

/* Of presets, aliases and model types. */
static const char *name_at(const void *user, uint32_t i)
{
    (void)user;
    if (i < PRESET_COUNT)
        return presets[i].name;
    i -= PRESET_COUNT;
    return i < ALIAS_COUNT ? aliases[i].name : remat_config_type(i - ALIAS_COUNT);
}

/* The model type of `name`, where no preset has its sizes: the nearest is the type, or the family
 * of that name and `name` says more. NULL: there is none. */
static const char *type_of(const char *name, uint32_t nearest)
{
    bool is_type = nearest >= PRESET_COUNT + ALIAS_COUNT;
    bool is_family = nearest < PRESET_COUNT && presets[nearest].layers == 0 &&
                     strlen(name) > strlen(presets[nearest].name) + 1; /* not "gpt-2" */
    const char *type = NULL;
    for (uint32_t k = 0; (is_type || is_family) && (type = remat_config_type(k)); k++)
        if (strcmp(type, name_at(NULL, nearest)) == 0)
            break;
    return type;
}

/* Hugging Face has models as OWNER/NAME; a folder may be a copy of one. */
static remat_status fail_unknown(remat_context *ctx, const char *given)
{
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    const uint32_t names = PRESET_COUNT + ALIAS_COUNT;
    char config[512];
    snprintf(config, sizeof config, "%.480s/config.json", given);
    if (access(config, F_OK) == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "model '%s' is a folder: did you mean '%s'?",
                           given, config);
    uint32_t types = 0;
    while (remat_config_type(types))
        types++;
    uint32_t nearest = remat_nearest(name, name_at, NULL, names + types);
    const char *type = nearest < names + types ? type_of(name, nearest) : NULL;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "unknown model '%.60s'%s (accepted: the presets of remat-graph --list, or a "
                       "config.json%s%s)",
                       given, type ? "" : remat_suggest("", name, name_at, NULL, names).text,
                       type ? ", such as one of model type " : "", type ? type : "");
}

remat_status remat_model_preset(remat_context *ctx, const char *name,
                                struct remat_model_settings *out)
{
    const char *preset = name;
    for (size_t k = 0; k < ALIAS_COUNT; k++)
        if (strcmp(aliases[k].name, name) == 0)
            preset = aliases[k].preset;
    for (size_t k = 0; k < PRESET_COUNT; k++) {
        if (strcmp(presets[k].name, preset) != 0)
            continue;
        *out = presets[k];
        remat_model_defaults(out);
        return REMAT_OK;
    }
    return fail_unknown(ctx, name);
}
