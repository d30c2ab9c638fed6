/* SPDX-License-Identifier: Apache-2.0 */
/* In the page is, as JSON, what the views say with --format json: so its numbers are theirs. Of
 * another plan it has what is laid over this one. */
#include "report_html.h"

#include "page.h"
#include "plan_lines.h"
#include "report_tables.h"

static const struct view {
    const char *name;
    dump_json_view json;
} tables[] =
    {
        {"memory", dump_memory_json},   {"schedule", dump_schedule_json},
        {"kernels", dump_kernels_json}, {"placement", dump_placement_json},
        {"why", dump_why_json},         {"step", dump_step_json},
},
  of_other[] = {
      {"schedule", dump_schedule_json},
      {"step", dump_step_json},
};

/* Keys of commands that the page does not show; they would be a third of it. */
static void leave_out(const json_t *commands)
{
    static const char *const keys[] = {"operands", "flops", "moved_bytes"};
    for (size_t i = 0; i < json_array_size(commands); i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            json_object_del(json_array_get(commands, i), keys[k]);
}

/* A view as an object of its own. */
static remat_status add_view(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const struct dump_asked *asked,
                             struct view view, struct dump_json *out)
{
    struct dump_json json = {json_object(), false};
    remat_status st = view.json(ctx, arena, program, asked, &json);
    leave_out(json_object_get(json.object, "schedule"));
    dump_set(out, view.name, json.object);
    out->failed |= json.failed;
    return st;
}

static remat_status add_files(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct dump_json curve = {json_object(), false}, measured = {json_object(), false};
    if (asked->curve)
        REMAT_TRY(dump_curve_json(ctx, arena, asked->curve, &curve));
    if (asked->with)
        REMAT_TRY(dump_measured_json(ctx, arena, program, asked->with, &measured));
fail:
    dump_set(out, "curve", curve.object);
    dump_set(out, "measured", measured.object);
    out->failed |= curve.failed || measured.failed;
    return st;
}

static remat_status add_other(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct dump_json *out)
{
    remat_status st = REMAT_OK;
    const struct dump_asked all = {0};
    struct dump_json other = {json_object(), false};
    for (size_t t = 0; t < sizeof of_other / sizeof *of_other; t++)
        REMAT_TRY(add_view(ctx, arena, asked->other, &all, of_other[t], &other));
    REMAT_TRY(add_view(ctx, arena, program, asked, (struct view){"diff", dump_diff_json}, out));
fail:
    dump_set(out, "other", other.object);
    out->failed |= other.failed;
    return st;
}

/* Those that are mostly tables; no keys of their objects are names. */
static remat_status add_tables(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct dump_json *out)
{
    remat_status st = REMAT_OK;
    const struct dump_asked all = {0};
    struct dump_json views = {json_object(), false};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        REMAT_TRY(add_view(ctx, arena, program, &all, tables[t], &views));
    if (asked->other)
        REMAT_TRY(add_other(ctx, arena, program, asked, &views));
    REMAT_TRY(add_files(ctx, arena, program, asked, &views));
    out->failed |= views.failed;
    dump_set(out, "tables", pack_tables(views.object));
fail:
    json_decref(views.object);
    return st;
}

static remat_status add_standing(struct remat_arena *arena, const struct remat_program *program,
                                 struct dump_json *out)
{
    struct remat_text certificate = {.arena = arena}, costs = {.arena = arena};
    certificate_print(program, &certificate);
    costs_print(program, &costs);
    dump_set(out, "certificate", json_string(certificate.count ? certificate.items : ""));
    dump_set(out, "costs", json_string(costs.count ? costs.items : ""));
    return certificate.failed || costs.failed ? REMAT_ERROR_MEMORY : REMAT_OK;
}

remat_status dump_report_html(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_json data = {json_object(), false};
    const struct dump_asked all = {0};
    REMAT_TRY(
        add_view(ctx, arena, program, &all, (struct view){"summary", dump_summary_json}, &data));
    if (asked->other)
        REMAT_TRY(add_view(ctx, arena, asked->other, &all,
                           (struct view){"other", dump_summary_json}, &data));
    REMAT_TRY(add_standing(arena, program, &data));
    REMAT_TRY(add_tables(ctx, arena, program, asked, &data));
    REMAT_TRY(page_append(ctx, report_head, report_tail, &data, 0, out));
fail:
    json_decref(data.object);
    return st;
}
