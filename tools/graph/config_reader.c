/* SPDX-License-Identifier: Apache-2.0 */
#include "config_reader.h"

#include "range.h"

const char *config_describe(const struct config *c, const char *key, const json_t *value)
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

remat_status config_refuse(const struct config *c, const char *key, const json_t *value,
                           const char *accepted)
{
    return remat_error(c->ctx, REMAT_ERROR_USAGE, "%s: %s (accepted: %s)", c->path,
                       config_describe(c, key, value), accepted);
}

void config_add_reason(const struct config *c, const char *reason)
{
    const char *before = c->out->plan_only;
    c->out->plan_only = before ? REMAT_FORMAT(c->arena, "%s, %s", before, reason) : reason;
}

remat_status config_leave_out(const struct config *c, const char *key, const json_t *value,
                              const char *accepted)
{
    if (!c->plan_only)
        return config_refuse(
            c, key, value,
            REMAT_FORMAT(c->arena, "%s; this one with --plan-only, for a plan alone", accepted));
    config_add_reason(c, config_describe(c, key, value));
    return REMAT_OK;
}

remat_status config_read_integer(const struct config *c, const struct config_key *row, int64_t *out)
{
    const json_t *value = json_object_get(c->root, row->name);
    if (!config_has(value) && !row->required) {
        *out = value ? 0 : *out;
        return REMAT_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > SIZE_MOST)
        return config_refuse(c, row->name, value, "1 to 16777216");
    *out = json_integer_value(value);
    return REMAT_OK;
}

remat_status config_read_number(const struct config *c, const json_t *object, const char *key,
                                const char *attribute, double *out)
{
    const json_t *value = json_object_get(object, key);
    struct remat_range range = remat_range_of(attribute);
    if (!config_has(value))
        return REMAT_OK;
    range.ends = range.least == 0 ? REMAT_ENDS_ABOVE : range.ends;
    if (!json_is_number(value) || !remat_range_has(&range, json_number_value(value)))
        return config_refuse(c, key, value, remat_range_text(&range).text);
    *out = json_number_value(value);
    return REMAT_OK;
}

remat_status config_read_boolean(const struct config *c, const char *key, bool *out)
{
    const json_t *value = json_object_get(c->root, key);
    *out = json_is_true(value);
    return !config_has(value) || json_is_boolean(value)
               ? REMAT_OK
               : config_refuse(c, key, value, "true, false");
}
