/* SPDX-License-Identifier: Apache-2.0 */
#include "run_html.h"

#include "page.h"
#include "report_tables.h"
#include "step_lines.h"

#include <math.h>

/* Digits of a decimal number that a double gives back. */
enum { DIGITS = 15 };

static json_t *number_of(double value)
{
    if (isnan(value))
        return json_null();
    return value == floor(value) && fabs(value) <= 0x1p53 ? json_integer((json_int_t)value)
                                                          : json_real(value);
}

static json_t *rows_of(const struct step_lines *lines, struct dump_json *out)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < lines->count; i++) {
        struct dump_json row = {json_object(), false};
        for (enum step_figure f = 0; f < FIGURES; f++)
            dump_set(&row, step_figure_names[f], number_of(lines->items[i].of[f]));
        if (lines->items[i].resumed)
            dump_set(&row, "resumed", json_true());
        out->failed |= row.failed;
        dump_push(out, rows, row.object);
    }
    return rows;
}

/* Of all lines, before they are thinned. */
static json_t *summary_of(const char *name, const struct step_lines *lines)
{
    double ns = 0, resumed = 0;
    for (size_t i = 0; i < lines->count; i++) {
        ns += isnan(lines->items[i].of[FIGURE_STEP_NS]) ? 0 : lines->items[i].of[FIGURE_STEP_NS];
        resumed += lines->items[i].resumed;
    }
    return json_pack("{s:s,s:I,s:f,s:f,s:b}", "name", name, "steps", (json_int_t)lines->count, "ns",
                     ns, "resumed", resumed, "cut_off", (int)lines->cut_off);
}

remat_status dump_run_html(remat_context *ctx, struct remat_arena *arena, const char *path,
                           const char *data, size_t bytes, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct step_lines lines;
    struct remat_text name = {.arena = arena};
    const char *folder = strrchr(path, '/');
    struct dump_json page = {json_object(), false}, tables = {json_object(), false};
    REMAT_TRY(step_lines_read(ctx, arena, path, data, bytes, &lines));
    remat_text_show(&name, folder ? folder + 1 : path);
    if (name.failed)
        REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    dump_set(&page, "summary", summary_of(name.items, &lines));
    REMAT_TRY(step_lines_thin(arena, &lines));
    dump_set(&tables, "steps", rows_of(&lines, &tables));
    page.failed |= tables.failed;
    dump_set(&page, "tables", pack_tables(tables.object));
    st = page_append(ctx, run_head, run_tail, &page, DIGITS, out);
fail:
    json_decref(tables.object);
    json_decref(page.object);
    return st;
}
