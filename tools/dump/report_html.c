/* SPDX-License-Identifier: Apache-2.0 */
/* In the page is, as JSON, what the views say with --format json: so its numbers are theirs. */
#include "report_html.h"

#include "page.h"
#include "plan_lines.h"
#include "report_tables.h"

static const struct {
    const char *name;
    dump_json_view json;
} tables[] = {
    {"memory", dump_memory_json},   {"schedule", dump_schedule_json},
    {"kernels", dump_kernels_json}, {"placement", dump_placement_json},
    {"why", dump_why_json},         {"step", dump_step_json},
};

/* A view as an object of its own. */
static remat_status add_view(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const char *name,
                             dump_json_view view, struct dump_json *out)
{
    struct dump_json json = {json_object(), false};
    remat_status st = view(ctx, arena, program, &(struct dump_asked){0}, &json);
    dump_set(out, name, json.object);
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

/* Those that are mostly tables; no keys of their objects are names. */
static remat_status add_tables(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct dump_json views = {json_object(), false};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        REMAT_TRY(add_view(ctx, arena, program, tables[t].name, tables[t].json, &views));
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
    REMAT_TRY(add_view(ctx, arena, program, "summary", dump_summary_json, &data));
    REMAT_TRY(add_standing(arena, program, &data));
    REMAT_TRY(add_tables(ctx, arena, program, asked, &data));
    REMAT_TRY(page_append(ctx, report_head, report_tail, &data, 0, out));
fail:
    json_decref(data.object);
    return st;
}
