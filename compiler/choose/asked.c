/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"

#include "size.h"

#include <assert.h>
#include <stdlib.h>

enum asked_kind { FLAG, TEXT, WORD, INTEGER, SIZE, TIME, GLOBS };

struct asked_row {
    const char *name;
    enum asked_kind kind;
    const char *words;   /* of WORD; one that INTEGER may be, too; NULL: none */
    int64_t least, most; /* of INTEGER; of SIZE `least` */
};

static const struct asked_row rows[] = {
    {"bind", TEXT, NULL, 0, 0},
    {"ranks", INTEGER, NULL, 1, 65536},
    {"global-batch", INTEGER, NULL, 1, INT32_MAX},
    {"microbatches", INTEGER, "auto", 1, 65536},
    {"mesh", TEXT, NULL, 0, 0},
    {"zero", TEXT, NULL, 0, 0},
    {"sequence-parallel", FLAG, NULL, 0, 0},
    {"exchange-size", SIZE, NULL, 1, 0},
    {"loss-chunk", TEXT, NULL, 0, 0},
    {"budget", SIZE, NULL, 1, 0},
    {"reserve", SIZE, NULL, 0, 0},
    {"target", TEXT, NULL, 0, 0},
    {"threads", INTEGER, NULL, 1, 1024},
    {"profile", TEXT, NULL, 0, 0},
    {"solver", WORD, "per-op|manual", 0, 0},
    {"time-limit", TIME, NULL, 0, 0},
    {"arch", TEXT, NULL, 0, 0},
    {"nvrtc", TEXT, NULL, 0, 0},
    {"cache", TEXT, NULL, 0, 0},
#define TEXT(field, name)   {name, TEXT, NULL, 0, 0},
#define FLAG(field, name)   {name, FLAG, NULL, 0, 0},
#define NUMBER(field, name) {name, INTEGER, NULL, INT64_MIN, INT64_MAX},
#define GLOBS(field, name)  {name, GLOBS, NULL, 0, 0},
#include "policy_settings.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct asked_row *find_row(const char *name)
{
    for (size_t k = 0; k < ROWS; k++)
        if (strcmp(rows[k].name, name) == 0)
            return &rows[k];
    return NULL;
}

static bool is_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, value, length) == 0)
            return true;
    return false;
}

/* One that is beyond every integer is beyond its range, too. */
static remat_status check_integer(remat_context *ctx, const struct asked_row *row,
                                  const char *value)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    if (end != value && !*end && number >= row->least && number <= row->most)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE, "--%s '%.200s' is not %lld to %lld%s%s", row->name,
                       value, (long long)row->least, (long long)row->most, row->words ? " or " : "",
                       row->words ? row->words : "");
}

static remat_status check_value(remat_context *ctx, const struct asked_row *row, const char *value)
{
    char label[64];
    uint64_t bytes;
    double seconds;
    snprintf(label, sizeof label, "--%s", row->name);
    switch (row->kind) {
    case SIZE:
        return remat_size_parse(ctx, label, value, UINT32_MAX, row->least == 0, &bytes);
    case TIME:
        return remat_duration_parse(ctx, label, value, &seconds);
    case INTEGER:
        return is_word(row->words, value) ? REMAT_OK : check_integer(ctx, row, value);
    case WORD:
        if (!is_word(row->words, value))
            return remat_error(ctx, REMAT_ERROR_USAGE, "%s '%.200s' is unknown (accepted: %s)",
                               label, value, row->words);
        return REMAT_OK;
    case FLAG:
        return *value ? remat_error(ctx, REMAT_ERROR_USAGE, "%s takes no value", label) : REMAT_OK;
    default:
        return *value ? REMAT_OK
                      : remat_error(ctx, REMAT_ERROR_USAGE, "%s needs a value that is not empty",
                                    label);
    }
}

const char *remat_asked_name(size_t number)
{
    return number < ROWS ? rows[number].name : NULL;
}

remat_status remat_asked_check(remat_context *ctx, const char *name, const char *value)
{
    const struct asked_row *row = find_row(name);
    assert(row);
    return check_value(ctx, row, value);
}

bool remat_asked_is_flag(const char *name)
{
    const struct asked_row *row = find_row(name);
    return row && row->kind == FLAG;
}

bool remat_asked_repeats(const char *name)
{
    const struct asked_row *row = find_row(name);
    return row && row->kind == GLOBS;
}

bool remat_asks(const struct remat_asked *asked, const char *name)
{
    return remat_asked_text(asked, name, NULL) != NULL;
}

const char *remat_asked_text(const struct remat_asked *asked, const char *name,
                             const char *otherwise)
{
    for (size_t i = 0; i < asked->count; i++)
        if (strcmp(asked->items[i].name, name) == 0)
            return asked->items[i].value;
    return otherwise;
}

int64_t remat_asked_integer(const struct remat_asked *asked, const char *name, int64_t otherwise)
{
    const char *text = remat_asked_text(asked, name, NULL);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

remat_status remat_asked_size(remat_context *ctx, const struct remat_asked *asked, const char *name,
                              uint64_t capacity, uint64_t *bytes)
{
    char label[64];
    const char *text = remat_asked_text(asked, name, NULL);
    const struct asked_row *row = find_row(name);
    snprintf(label, sizeof label, "--%s", name);
    return text ? remat_size_parse(ctx, label, text, capacity, row && row->least == 0, bytes)
                : REMAT_OK;
}
