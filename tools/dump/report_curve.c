/* SPDX-License-Identifier: Apache-2.0 */
/* Both forms of remat-compile --curve; what the page does not show of them is not looked at. */
#include "file.h"
#include "report_html.h"

#include <math.h>
#include <stdlib.h>

#define LARGEST 0x1p53 /* up to here a double has every whole number */
static const char csv_head[] = "budget,feasible,peak,time,overhead,lower_bound,gap";
enum { BUDGET, FEASIBLE, PEAK, TIME, OVERHEAD, LOWER_BOUND, GAP, CELLS };

static bool is_figure(double value)
{
    return value >= 0 && value <= LARGEST;
}

static void add_point(json_t *points, double budget, bool feasible, double time, double lower_bound,
                      struct dump_json *out)
{
    json_t *unknown = json_null();
    dump_push(out, points,
              json_pack("{s:f,s:b,s:o,s:o}", "budget", budget, "feasible", (int)feasible, "time",
                        feasible ? json_real(time) : unknown, "lower_bound",
                        feasible && !isnan(lower_bound) ? json_real(lower_bound) : unknown));
}

/* --- .csv --- */

/* "" is NAN. */
static bool read_cell(const char *text, double *out)
{
    char *end;
    *out = *text ? strtod(text, &end) : (double)NAN;
    return !*text || (end != text && !*end && is_figure(*out));
}

static remat_status read_line(remat_context *ctx, const char *path, int number, char *line,
                              json_t *points, struct dump_json *out)
{
    double cells[CELLS];
    char *rest = line;
    for (int i = 0; i < CELLS; i++) {
        char *cell = strsep(&rest, ",");
        bool shown = i == BUDGET || i == TIME || i == LOWER_BOUND || i == FEASIBLE;
        if (!cell || (shown && !read_cell(cell, &cells[i])))
            return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d: %s is \"%s\", expected a number",
                               path, number,
                               (const char *[]){"budget", "feasible", "peak", "time", "overhead",
                                                "lower_bound", "gap"}[i],
                               cell ? cell : "");
    }
    bool feasible = cells[FEASIBLE] == 1;
    if (isnan(cells[BUDGET]) || (feasible && isnan(cells[TIME])))
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d: a point without budget or time", path,
                           number);
    add_point(points, cells[BUDGET], feasible, cells[TIME], cells[LOWER_BOUND], out);
    return REMAT_OK;
}

static remat_status read_csv(remat_context *ctx, const char *path, char *data, json_t *points,
                             struct dump_json *out)
{
    char *rest = data, *line = strsep(&rest, "\n");
    if (strncmp(line, csv_head, sizeof csv_head - 1) != 0)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s:1: not a curve: neither a JSON object nor a line that begins with "
                           "\"%s\"",
                           path, csv_head);
    for (int number = 2; (line = strsep(&rest, "\n")); number++) {
        remat_status st = *line ? read_line(ctx, path, number, line, points, out) : REMAT_OK;
        if (st)
            return st;
    }
    return REMAT_OK;
}

/* --- .json --- */

static remat_status read_point(remat_context *ctx, const char *path, size_t index,
                               const json_t *point, json_t *points, struct dump_json *out)
{
    static const char *const keys[] = {"budget", "time", "lower_bound"};
    double figures[] = {NAN, NAN, NAN};
    bool feasible = json_is_true(json_object_get(point, "feasible"));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *value = json_object_get(point, keys[k]);
        bool needed = k == 0 || (k == 1 && feasible);
        if (json_is_number(value))
            figures[k] = json_number_value(value);
        if ((needed || (value && !json_is_null(value))) && !is_figure(figures[k]))
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "%s: points[%zu].%s is no number from 0 to 2^53", path, index,
                               keys[k]);
    }
    add_point(points, figures[0], feasible, figures[1], figures[2], out);
    return REMAT_OK;
}

static remat_status read_json(remat_context *ctx, const char *path, const char *data, size_t bytes,
                              json_t *points, struct dump_json *out)
{
    remat_status st = REMAT_OK;
    json_error_t error;
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    const json_t *given = json_object_get(root, "points");
    if (!root)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d:%d: %s", path, error.line, error.column,
                   error.text);
    if (!json_is_array(given))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: not a curve: points is no array", path);
    for (size_t i = 0; i < json_array_size(given); i++)
        REMAT_TRY(read_point(ctx, path, i, json_array_get(given, i), points, out));
fail:
    json_decref(root);
    return st;
}

remat_status dump_curve_json(remat_context *ctx, struct remat_arena *arena, const char *path,
                             struct dump_json *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    json_t *points = json_array();
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    if (data[strspn(data, " \t\r\n")] == '{')
        REMAT_TRY(read_json(ctx, path, data, bytes, points, out));
    else
        REMAT_TRY(read_csv(ctx, path, data, points, out));
fail:
    dump_set(out, "points", points);
    return st;
}
