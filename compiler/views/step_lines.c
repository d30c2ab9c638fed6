/* SPDX-License-Identifier: Apache-2.0 */
/* Anything may be in a log: each line is read as an object of its own, so that memory beside the
 * steps is that of a line. */
#include "step_lines.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define LARGEST_WHOLE  0x1p53 /* up to here a double has every whole number */
#define LARGEST_FLOAT  3.4028235677973366e38
#define LINE_BYTES     65536
#define SHORTEST_BYTES (sizeof "{\"step\":1,\"loss\":1}" - 1)
#define STRETCHES      4000
#define ALL_SHOWN      (8 * STRETCHES)

const char *const step_figure_names[FIGURES] = {"step",   "loss",         "eval_loss", "lr",
                                                "tokens", "tokens_per_s", "step_ns",   "unix_s"};
static const struct {
    bool needed, nullable; /* a loss that is not finite is null */
    double least, most;
} rules[FIGURES] = {
    [FIGURE_STEP] = {true, false, 1, LARGEST_WHOLE},
    [FIGURE_LOSS] = {true, true, -LARGEST_FLOAT, LARGEST_FLOAT},
    [FIGURE_EVAL_LOSS] = {false, true, -LARGEST_FLOAT, LARGEST_FLOAT},
    [FIGURE_LR] = {false, false, 0, LARGEST_FLOAT},
    [FIGURE_TOKENS] = {false, false, 0, LARGEST_WHOLE},
    [FIGURE_TOKENS_PER_S] = {false, false, 0, LARGEST_WHOLE},
    [FIGURE_STEP_NS] = {false, false, 0, LARGEST_WHOLE},
    [FIGURE_UNIX_S] = {false, false, 0, LARGEST_WHOLE},
};

bool step_lines_begin(const char *data, size_t bytes)
{
    return bytes > 0 && *data == '{';
}

static remat_status read_figure(remat_context *ctx, const char *name, size_t number,
                                const json_t *object, enum step_figure figure, double *out)
{
    const json_t *value = json_object_get(object, step_figure_names[figure]);
    *out = NAN;
    if (!value && rules[figure].needed)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%zu: %s is missing: no line of a step",
                           name, number, step_figure_names[figure]);
    if (!value || (json_is_null(value) && rules[figure].nullable))
        return REMAT_OK;
    *out = json_number_value(value);
    bool whole = figure != FIGURE_STEP || json_is_integer(value);
    if (json_is_number(value) && whole && *out >= rules[figure].least && *out <= rules[figure].most)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%zu: %s is no %snumber from %.9g to %.9g",
                       name, number, step_figure_names[figure],
                       figure == FIGURE_STEP ? "whole " : "", rules[figure].least,
                       rules[figure].most);
}

static remat_status read_line(remat_context *ctx, const char *name, size_t number, const char *text,
                              size_t length, struct step_line *out)
{
    remat_status st = REMAT_OK;
    json_error_t error;
    json_t *object = NULL;
    if (length > LINE_BYTES)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%zu: longer than %d bytes: no line of a step",
                   name, number, LINE_BYTES);
    object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%zu:%d: %s", name, number, error.column,
                   error.text);
    *out = (struct step_line){.resumed = false};
    for (enum step_figure figure = 0; figure < FIGURES; figure++)
        REMAT_TRY(read_figure(ctx, name, number, object, figure, &out->of[figure]));
fail:
    json_decref(object);
    return st;
}

static void add_line(struct step_lines *lines, const struct step_line *line)
{
    size_t before = lines->count;
    while (lines->count && lines->items[lines->count - 1].of[FIGURE_STEP] >= line->of[FIGURE_STEP])
        lines->count--;
    lines->items[lines->count] = *line;
    lines->items[lines->count].resumed = lines->count < before;
    lines->count++;
}

static size_t count_ends(const char *data, size_t bytes)
{
    size_t count = 0;
    for (const char *at = data; (at = memchr(at, '\n', bytes - (size_t)(at - data))); at++)
        count++;
    return count;
}

remat_status step_lines_read(remat_context *ctx, struct remat_arena *arena, const char *name,
                             const char *data, size_t bytes, struct step_lines *out)
{
    remat_status st = REMAT_OK;
    size_t number = 1, most = count_ends(data, bytes) + 1;
    const char *end = data + bytes;
    *out = (struct step_lines){0};
    most = most < bytes / SHORTEST_BYTES + 1 ? most : bytes / SHORTEST_BYTES + 1;
    REMAT_TRY_NEW(arena, out->items, most);
    for (const char *at = data; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct step_line line;
        st = read_line(ctx, name, number, at, (size_t)((stop ? stop : end) - at), &line);
        if (st == REMAT_ERROR_INVALID && !stop && number > 1) { /* it may be written just now */
            out->cut_off = true;
            return REMAT_OK;
        }
        REMAT_TRY(st);
        assert(out->count < most);
        add_line(out, &line);
        at = stop ? stop + 1 : end;
    }
fail:
    return st;
}

static void keep_extremes(const struct step_line *items, size_t begin, size_t end,
                          enum step_figure figure, bool *kept)
{
    size_t least = end, most = end;
    for (size_t i = begin; i < end; i++) {
        double value = items[i].of[figure];
        if (isnan(value))
            continue;
        if (least == end || value < items[least].of[figure])
            least = i;
        if (most == end || value > items[most].of[figure])
            most = i;
    }
    if (least < end)
        kept[least] = kept[most] = true;
}

/* The first resumed one, and the first whose loss is not finite. */
static void keep_events(const struct step_line *items, size_t begin, size_t end, bool *kept)
{
    size_t resumed = begin, lost = begin;
    while (resumed < end && !items[resumed].resumed)
        resumed++;
    while (lost < end && !isnan(items[lost].of[FIGURE_LOSS]))
        lost++;
    kept[resumed < end ? resumed : begin] |= resumed < end;
    kept[lost < end ? lost : begin] |= lost < end;
}

remat_status step_lines_thin(struct remat_arena *arena, struct step_lines *lines)
{
    static const enum step_figure drawn[] = {FIGURE_LOSS, FIGURE_EVAL_LOSS, FIGURE_LR,
                                             FIGURE_TOKENS_PER_S};
    remat_status st = REMAT_OK;
    size_t length = (lines->count + STRETCHES - 1) / STRETCHES, count = 0;
    bool *kept;
    if (lines->count <= ALL_SHOWN)
        return REMAT_OK;
    REMAT_TRY_NEW(arena, kept, lines->count);
    for (size_t begin = 0; begin < lines->count; begin += length) {
        size_t end = begin + length < lines->count ? begin + length : lines->count;
        for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
            keep_extremes(lines->items, begin, end, drawn[i], kept);
        keep_events(lines->items, begin, end, kept);
    }
    kept[0] = kept[lines->count - 1] = true;
    for (size_t i = 0; i < lines->count; i++)
        if (kept[i])
            lines->items[count++] = lines->items[i];
    lines->count = count;
fail:
    return st;
}
