/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_file.h"

#include <inttypes.h>
#include <math.h>

static void write_json(struct remat_text *text, const struct curve *curve,
                       const struct remat_frontier *f)
{
    remat_text_append(text,
                      "{\n  \"schema\": \"remat-curve/1\",\n  \"reserve\": %" PRIu64
                      ",\n  \"floor\": %" PRIu64 ",\n  \"total_time\": %" PRIu64
                      ",\n  \"decisions\": %" PRIu32 ",\n  \"seen\": %" PRIu32
                      ",\n  \"evaluated\": %" PRIu32 ",\n  \"cut_short\": %s,\n  \"points\": ",
                      f->reserve_bytes, f->floor_bytes, f->base_ns, f->decision_count,
                      f->seen_count, f->evaluated_count, f->cut_short ? "true" : "false");
    curve_json(text, curve);
    remat_text_append(text, "\n}\n");
}

static void write_csv(struct remat_text *text, const struct curve *curve,
                      const struct remat_frontier *f)
{
    (void)f;
    curve_csv(text, curve);
}

static void write_svg(struct remat_text *text, const struct curve *curve,
                      const struct remat_frontier *f)
{
    (void)f;
    curve_svg(text, curve);
}

static const struct {
    const char *ending;
    void (*write)(struct remat_text *text, const struct curve *curve,
                  const struct remat_frontier *frontier);
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
    return remat_error(ctx, REMAT_ERROR_USAGE, "--curve '%s' ends in none of .csv, .json, .svg",
                       path);
}

remat_status curve_file_write(struct remat_arena *arena, struct remat_outputs *outputs,
                              const char *path, const struct remat_frontier *f,
                              const struct curve_picture *picture)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = arena};
    struct curve_point *points;
    REMAT_TRY_NEW(arena, points, f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct remat_frontier_point *p = &f->points[i];
        points[i] = (struct curve_point){.budget = p->live_peak_bytes + f->reserve_bytes,
                                         .fits = true,
                                         .peak = p->live_peak_bytes,
                                         .time = (double)p->step_ns,
                                         .lower_bound = f->bounded ? (double)p->bound_ns : NAN,
                                         .plan = p->policy};
    }
    forms[form_of(path)].write(&text,
                               &(struct curve){points, f->count, (double)f->base_ns, picture}, f);
    if (text.failed)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(remat_outputs_write(outputs, path, text.items, text.count));
fail:
    return st;
}
