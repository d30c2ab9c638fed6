/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_file.h"

#include "cli.h"
#include "curve.h"

#include <inttypes.h>
#include <math.h>

static void write_json(struct remat_text *text, const struct curve *curve,
                       const remat_trade_info *f)
{
    remat_text_append(text,
                      "{\n  \"schema\": \"remat-curve/1\",\n  \"reserve\": %" PRIu64
                      ",\n  \"floor\": %" PRIu64 ",\n  \"total_time\": %" PRIu64
                      ",\n  \"decisions\": %" PRIu32 ",\n  \"seen\": %" PRIu32
                      ",\n  \"evaluated\": %" PRIu32 ",\n  \"cut_short\": %s,\n  \"points\": ",
                      f->reserve_bytes, f->floor_bytes, f->base_step_ns, f->decision_count,
                      f->seen_count, f->evaluated_count, f->cut_short ? "true" : "false");
    curve_json(text, curve);
    remat_text_append(text, "\n}\n");
}

static void write_csv(struct remat_text *text, const struct curve *curve, const remat_trade_info *f)
{
    (void)f;
    curve_csv(text, curve);
}

static void write_svg(struct remat_text *text, const struct curve *curve, const remat_trade_info *f)
{
    (void)f;
    curve_svg(text, curve);
}

static const struct {
    const char *ending;
    void (*write)(struct remat_text *text, const struct curve *curve, const remat_trade_info *info);
} forms[] = {{".csv", write_csv}, {".json", write_json}, {".svg", write_svg}};
enum { FORMS = sizeof forms / sizeof *forms };

/* FORMS: none. */
static size_t form_of(const char *path)
{
    const char *ending = strrchr(path, '.');
    size_t f = 0;
    while (f < FORMS && !(ending && strcmp(ending, forms[f].ending) == 0))
        f++;
    return f;
}

remat_status curve_file_check(remat_context *ctx, const char *path)
{
    if (form_of(path) < FORMS)
        return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_USAGE, "--curve '%s' ends in none of .csv, .json, .svg",
                     path);
}

static struct curve_point *list_points(struct remat_arena *arena, const remat_trade *trade,
                                       const remat_trade_info *info, uint32_t *count)
{
    const remat_trade_point *points = remat_trade_points(trade, count);
    struct curve_point *out = remat_arena_array(arena, *count, sizeof *out);
    for (uint32_t i = 0; out && i < *count; i++)
        out[i] = (struct curve_point){.budget = points[i].peak_bytes + info->reserve_bytes,
                                      .fits = true,
                                      .peak = points[i].peak_bytes,
                                      .time = (double)points[i].step_ns,
                                      .lower_bound =
                                          info->bounded ? (double)points[i].bound_step_ns : NAN,
                                      .plan = points[i].policy};
    return out;
}

static struct curve_mark *list_marks(struct remat_arena *arena, const remat_trade *trade,
                                     uint32_t *count)
{
    const remat_trade_mark *marks = remat_trade_marks(trade, count);
    struct curve_mark *out = remat_arena_array(arena, *count, sizeof *out);
    for (uint32_t i = 0; out && i < *count; i++)
        out[i] = (struct curve_mark){marks[i].name, marks[i].kind, marks[i].systems,
                                     marks[i].budget_bytes, (double)marks[i].step_ns};
    return out;
}

remat_status curve_file_write(struct remat_arena *arena, struct remat_outputs *outputs,
                              const char *path, const remat_trade *trade)
{
    struct remat_text text = {.arena = arena};
    remat_trade_info info = {.struct_size = sizeof info};
    uint32_t count;
    remat_trade_get_info(trade, &info);
    const struct curve_point *points = list_points(arena, trade, &info, &count);
    struct curve_picture picture = {
        .title = remat_arena_format(arena, "%s on %s", info.graph, info.device),
        .time = "predicted step time",
        .subtitle = info.sizes,
        .device = info.device,
        .capacity = info.capacity_bytes};
    picture.marks = list_marks(arena, trade, &picture.mark_count);
    if (!points || !picture.marks || !picture.title)
        return REMAT_ERROR_MEMORY;
    forms[form_of(path)].write(
        &text, &(struct curve){points, count, (double)info.base_step_ns, &picture}, &info);
    return text.failed ? REMAT_ERROR_MEMORY
                       : remat_outputs_write(outputs, path, text.items, text.count);
}
