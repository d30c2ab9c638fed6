/* SPDX-License-Identifier: Apache-2.0 */
/* Curves for a host. */
#include "compiled.h"

#include "curve_marks.h"
#include "graph_file.h"
#include "plan_report.h"

#include <inttypes.h>

struct remat_trade {
    struct remat_handle handle;
    struct remat_front front;
    const char *graph, *sizes;
    struct remat_device_description device;
    remat_trade_point *points;
    remat_trade_mark *marks;
    uint32_t mark_count;
};

struct trade_job { /* arguments of a guarded call */
    const remat_graph_builder *graph;
    const remat_compile_options *options;
    const struct remat_planned *planned; /* NULL: none is */
    remat_trade *trade;
};

/* Sizes of the graph that the curve is of: "batch 8, sequence 1024". */
static remat_status describe(const struct remat_request *r, const struct remat_planned *planned,
                             remat_trade *trade)
{
    struct remat_text sizes = {.arena = r->arena};
    char mesh[REMAT_MESH_TEXT_BYTES];
    const char *separator = "";
    struct remat_graph *symbols = remat_graph_copy(r->arena, r->graph, 1);
    REMAT_CHECK(remat_graph_set_symbols(r->ctx, r->asked->model, planned->bindings, symbols));
    for (uint32_t k = 0; k < symbols->symbol_count; k++) {
        bool length = strcmp(symbols->symbols[k].name, "seq") == 0;
        remat_text_append(&sizes, "%s%s %" PRId64, separator,
                          length ? "sequence" : symbols->symbols[k].name,
                          symbols->symbols[k].value);
        separator = ", ";
    }
    if (planned->settings.passes.microbatches > 1) {
        remat_text_append(&sizes, "%s%" PRIu32 " microbatches", separator,
                          planned->settings.passes.microbatches);
        separator = ", ";
    }
    remat_mesh_print(&planned->settings.mesh, mesh);
    if (*mesh)
        remat_text_append(&sizes, "%s%s, memory of a rank", separator, mesh);
    trade->graph = r->graph->name;
    trade->sizes = sizes.items;
    trade->device = planned->settings.device;
    return sizes.failed ? REMAT_ERROR_MEMORY : REMAT_OK;
}

static void list_points(remat_trade *trade)
{
    const struct remat_front *front = &trade->front;
    REMAT_NEW_UNINITIALIZED(&trade->handle.arena, trade->points, front->count);
    for (uint32_t k = 0; k < front->count; k++)
        trade->points[k] =
            (remat_trade_point){front->points[k].live_peak_bytes, front->points[k].step_ns,
                                front->points[k].bound_ns, front->points[k].policy};
}

static remat_status list_marks(remat_trade *trade)
{
    struct remat_curve_mark *marks;
    REMAT_CHECK(remat_curve_marks(&trade->handle.arena, &trade->front, &marks, &trade->mark_count));
    REMAT_NEW_UNINITIALIZED(&trade->handle.arena, trade->marks, trade->mark_count);
    for (uint32_t k = 0; k < trade->mark_count; k++)
        trade->marks[k] = (remat_trade_mark){marks[k].name, marks[k].kind, marks[k].systems,
                                             marks[k].budget_bytes, marks[k].step_ns};
    return REMAT_OK;
}

/* Passes are observed once. */
static void settle(const struct trade_job *job, const struct remat_planned *planned,
                   struct remat_compile_settings *out)
{
    *out = planned->settings;
    if (!job->planned)
        return;
    out->after_pass = NULL;
    out->pass_time = NULL;
    out->is_late = NULL;
}

/* What `own` is planned to be, without a plan, unless there is one. */
static remat_status plan(const struct trade_job *job, struct remat_request *r,
                         struct remat_planned *own)
{
    remat_watch_request(job->options, false, r);
    if (!job->planned)
        return remat_plan_asked(r, true, own);
    const struct remat_sizes *sizes = job->planned->sizes;
    if (sizes)
        remat_request_look(
            r, (struct remat_attempt){sizes, sizes->trials[sizes->best].value, true, NULL, NULL});
    *own = *job->planned;
    own->settings.search.is_over = r->settings.search.is_over;
    own->settings.search.is_over_user = r->settings.search.is_over_user;
    own->settings.search.bounded = r->settings.search.bounded;
    own->settings.search.tried = r->settings.search.tried;
    own->settings.search.search_user = r->settings.search.search_user;
    own->settings.search.refused = NULL;
    return REMAT_OK;
}

static remat_status make_trade(void *user)
{
    const struct trade_job *job = user;
    remat_trade *trade = job->trade;
    struct remat_asked *asked;
    struct remat_request r;
    struct remat_planned planned;
    struct remat_compile_settings settings;
    struct remat_policies policies = {0};
    REMAT_NEW(&trade->handle.arena, asked, 1);
    REMAT_CHECK(remat_read_options(&trade->handle, job->options, job->graph, asked, &r));
    REMAT_CHECK(plan(job, &r, &planned));
    settle(job, &planned, &settings);
    if (job->options->marks && !remat_has_pins(planned.graph, &settings.search.policy))
        REMAT_CHECK(remat_curve_policies(r.ctx, r.arena, planned.graph, &policies));
    trade->front = (struct remat_front){.plan = planned.program,
                                        .policies = policies.items,
                                        .policy_count = (uint32_t)policies.count};
    REMAT_CHECK(remat_compile_front(r.ctx, r.arena, planned.graph, &settings, &trade->front));
    list_points(trade);
    REMAT_CHECK(list_marks(trade));
    return describe(&r, &planned, trade);
}

remat_status remat_trade_create(remat_context *ctx, const remat_graph_builder *graph,
                                const remat_compile_options *options,
                                const remat_compiled *compiled, remat_trade **out)
{
    *out = NULL;
    REMAT_CHECK(remat_check_finished(ctx, graph));
    REMAT_CHECK(remat_handle_check(ctx, options, "options"));
    if (compiled)
        REMAT_CHECK(remat_check_planned(ctx, compiled));
    remat_trade *trade = *out = remat_handle_open(ctx, "curve", sizeof *trade);
    if (!trade)
        return REMAT_ERROR_MEMORY;
    struct trade_job job = {.graph = graph, .options = options, .trade = trade};
    job.planned = compiled ? remat_compiled_planned(compiled) : NULL;
    remat_status st = remat_guard(ctx, make_trade, &job);
    if (st == REMAT_ERROR_INVALID)
        st = remat_name_graph(ctx, graph->label);
    if (st != REMAT_OK)
        remat_trade_destroy(out);
    return st;
}

void remat_trade_destroy(remat_trade **trade)
{
    remat_handle_close(*trade);
    *trade = NULL;
}

const remat_trade_point *remat_trade_points(const remat_trade *trade, uint32_t *out_count)
{
    *out_count = trade->front.count;
    return trade->points;
}

const remat_trade_mark *remat_trade_marks(const remat_trade *trade, uint32_t *out_count)
{
    *out_count = trade->mark_count;
    return trade->marks;
}

void remat_trade_get_info(const remat_trade *trade, remat_trade_info *out)
{
    const struct remat_front *f = &trade->front;
    remat_trade_info info = {.struct_size = sizeof info,
                             .reserve_bytes = f->reserve_bytes,
                             .floor_bytes = f->floor_bytes,
                             .base_step_ns = f->base_ns,
                             .decision_count = f->decision_count,
                             .seen_count = f->seen_count,
                             .evaluated_count = f->evaluated_count,
                             .bounded = f->bounded,
                             .cut_short = f->cut_short,
                             .graph = trade->graph,
                             .sizes = trade->sizes,
                             .device = trade->device.name,
                             .capacity_bytes = trade->device.capacity_bytes};
    remat_handle_give(&info, sizeof info, out);
}

void remat_trade_describe(const remat_trade *trade, struct remat_report *report)
{
    report->front = &trade->front;
}
