/* SPDX-License-Identifier: Apache-2.0 */
#include "compiled.h"

#include "plan_report_parts.h"

struct report_writing { /* arguments of a guarded call */
    remat_context *ctx;
    const remat_compiled *c;
    remat_report_spec spec;
    bool explains;
    remat_write_line write;
    void *user;
};

static void write_lines(const struct report_writing *w, const struct remat_text *text)
{
    char *line = text->items, *end;
    for (; line && *line; line = end + 1) {
        bool prose = *line == *REMAT_PROSE;
        end = line + strcspn(line, "\n");
        bool last = !*end;
        *end = 0;
        w->write(w->user, line + prose, prose);
        if (last)
            break;
    }
}

static void append_report(const struct report_writing *w, struct remat_text *out)
{
    struct remat_report report = {0};
    const remat_compiled *c = w->c;
    if (c)
        report = c->report;
    report.path = w->spec.plan_path ? w->spec.plan_path : "";
    if (w->spec.trade)
        remat_trade_describe(w->spec.trade, &report);
    report.curve_path = w->spec.trade_path ? w->spec.trade_path : "";
    if (c && c->is_refused && w->spec.json)
        remat_refusal_json(&c->refused, out);
    else if (c && !report.program && !w->spec.json)
        remat_text_append(out, "%s", c->lines.items ? c->lines.items : "");
    else if (!c || report.program)
        (w->spec.json ? remat_report_json : remat_report_text)(&report, out);
}

static remat_status explain(const struct report_writing *w, struct remat_arena *scratch,
                            struct remat_text *out)
{
    const remat_compiled *c = w->c;
    const struct remat_text *kept =
        w->spec.json ? &c->refused.explanation_json : &c->refused.explanation;
    if (!c->explain.count || !c->planned.program) {
        if (c->explain.count && kept->items)
            remat_text_append(out, "%s", kept->items);
        return REMAT_OK;
    }
    return (w->spec.json ? remat_explanation_json : remat_explanation_text)(
        w->ctx, scratch, &c->explain, c->planned.program, 0, out);
}

static remat_status write_report(void *user)
{
    const struct report_writing *w = user;
    struct remat_arena *scratch = remat_scratch_open(w->ctx);
    struct remat_text text = {.arena = scratch};
    if (w->explains)
        REMAT_CHECK(explain(w, scratch, &text));
    else
        append_report(w, &text);
    if (text.failed)
        return remat_error(w->ctx, REMAT_ERROR_MEMORY, "out of memory");
    write_lines(w, &text);
    remat_scratch_close(scratch);
    return REMAT_OK;
}

remat_status remat_compiled_report(remat_context *ctx, const remat_compiled *compiled,
                                   const remat_report_spec *spec, remat_write_line write,
                                   void *user)
{
    struct report_writing w = {.ctx = ctx, .c = compiled, .write = write, .user = user};
    remat_handle_take(spec, sizeof w.spec, &w.spec);
    if (compiled)
        REMAT_CHECK(remat_handle_check(ctx, compiled, "plan"));
    if (w.spec.trade)
        REMAT_CHECK(remat_handle_check(ctx, w.spec.trade, "curve"));
    return remat_guard(ctx, write_report, &w);
}

remat_status remat_compiled_explain(remat_context *ctx, const remat_compiled *compiled, bool json,
                                    remat_write_line write, void *user)
{
    struct report_writing w = {.ctx = ctx,
                               .c = compiled,
                               .spec = {.json = json},
                               .explains = true,
                               .write = write,
                               .user = user};
    REMAT_CHECK(remat_handle_check(ctx, compiled, "plan"));
    return remat_guard(ctx, write_report, &w);
}
