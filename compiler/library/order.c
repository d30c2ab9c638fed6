/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and curves for a host: the compiler's own entry points, with their results copied. */
#include "graph_builder.h"

#include <errno.h>
#include <stdlib.h>

struct remat_order {
    struct remat_handle handle;
    remat_order_info info;
    const remat_order_run *runs;
    uint32_t run_count;
};

struct remat_trade {
    struct remat_handle handle;
    remat_trade_point *points;
    uint32_t count;
};

/* --- options --- */

remat_status remat_compile_options_create(remat_context *ctx, remat_compile_options **out)
{
    remat_compile_options *o = *out = remat_handle_open(ctx, sizeof *o);
    if (o)
        o->target = "cpu";
    return o ? REMAT_OK : REMAT_ERROR_MEMORY;
}

void remat_compile_options_destroy(remat_compile_options **options)
{
    remat_handle_close(*options);
    *options = NULL;
}

static remat_status set_number(remat_compile_options *o, const char *name, const char *value,
                               uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || number > most)
        return remat_error(o->handle.ctx, REMAT_ERROR_USAGE,
                           "%s '%.200s' is no whole number (accepted: up to %llu)", name, value,
                           (unsigned long long)most);
    *out = number;
    return REMAT_OK;
}

static remat_status set_budget(remat_compile_options *o, const char *value)
{
    o->has_budget = true;
    return set_number(o, "budget", value, INT64_MAX, &o->budget_bytes);
}

static remat_status set_reserve(remat_compile_options *o, const char *value)
{
    o->has_reserve = true;
    return set_number(o, "reserve", value, INT64_MAX, &o->reserve_bytes);
}

static remat_status set_threads(remat_compile_options *o, const char *value)
{
    uint64_t threads;
    REMAT_CHECK(set_number(o, "threads", value, 1024, &threads));
    o->threads = (uint32_t)threads;
    return REMAT_OK;
}

static remat_status set_target(remat_compile_options *o, const char *value)
{
    const char *copy = remat_arena_string(&o->handle.arena, value, strlen(value));
    o->target = copy ? copy : o->target;
    return copy ? REMAT_OK : REMAT_ERROR_MEMORY;
}

remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                       const char *value)
{
    static const struct {
        const char *name;
        remat_status (*set)(remat_compile_options *, const char *);
    } rows[] = {{"budget", set_budget},
                {"reserve", set_reserve},
                {"target", set_target},
                {"threads", set_threads}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].name, name) == 0)
            return rows[k].set(options, value);
    return remat_error(options->handle.ctx, REMAT_ERROR_USAGE,
                       "no option is named '%.200s' (accepted: budget, reserve, target, threads)",
                       name);
}

void remat_compile_options_watch(remat_compile_options *options, remat_is_cancelled is_cancelled,
                                 void *user)
{
    options->is_cancelled = is_cancelled;
    options->user = user;
}

static bool is_over(void *user, const struct remat_search_state *state)
{
    const remat_compile_options *o = user;
    return o->is_cancelled(o->user, state->best_ns, state->bound_ns);
}

static bool is_late(void *user)
{
    const remat_compile_options *o = user;
    return o->is_cancelled(o->user, 0, 0);
}

static remat_status read_options(struct remat_arena *arena, const remat_compile_options *o,
                                 struct remat_compile_settings *out)
{
    *out = (struct remat_compile_settings){
        .search = {.has_budget = o->has_budget, .budget_bytes = o->budget_bytes},
        .has_reserve = o->has_reserve,
        .reserve_bytes = o->reserve_bytes,
        .without_cuda = true,
        .passes.microbatches = 1};
    if (o->is_cancelled) {
        out->search.is_over = is_over;
        out->search.is_over_user = (void *)o;
        out->is_late = is_late;
    }
    return remat_device_description_read(arena->ctx, arena, o->target, o->threads, &out->device);
}

struct order_job { /* arguments of a guarded call */
    const remat_graph_builder *graph;
    const remat_compile_options *options;
    struct remat_arena *scratch;
    struct remat_compile_settings settings;
    remat_order *order;
    remat_trade *trade;
};

static remat_status check_finished(remat_context *ctx, const remat_graph_builder *graph)
{
    return graph->finished ? REMAT_OK
                           : remat_error(ctx, REMAT_ERROR_USAGE, "graph \"%.200s\" is not finished",
                                         graph->graph->name);
}

/* --- orders --- */

static remat_status make_order(void *user)
{
    struct order_job *job = user;
    remat_order *order = job->order;
    struct remat_found_order found;
    remat_order_run *runs;
    job->scratch = remat_scratch_open(order->handle.ctx);
    REMAT_CHECK(read_options(job->scratch, job->options, &job->settings));
    REMAT_CHECK(remat_compile_order(order->handle.ctx, job->scratch, job->graph->graph,
                                    &job->settings, &found));
    REMAT_NEW_UNINITIALIZED(&order->handle.arena, runs, found.run_count);
    for (uint32_t k = 0; k < found.run_count; k++)
        runs[k] = (remat_order_run){found.runs[k].node.i, found.runs[k].round,
                                    found.runs[k].position, found.runs[k].stored};
    order->runs = runs;
    order->run_count = found.run_count;
    order->info = (remat_order_info){
        .struct_size = sizeof order->info,
        .policy = remat_string(&order->handle.arena, found.policy, strlen(found.policy)),
        .arena_bytes = found.arena_bytes,
        .peak_bytes = found.live_peak_bytes,
        .static_bytes = found.static_bytes,
        .reserve_bytes = found.reserve_bytes,
        .step_ns = found.step_ns,
        .base_step_ns = found.base_ns,
        .bound_step_ns = found.bound_ns,
        .floor_bytes = found.floor_bytes,
        .cut_short = found.cut_short};
    remat_scratch_close(job->scratch);
    return REMAT_OK;
}

remat_status remat_order_create(remat_context *ctx, const remat_graph_builder *graph,
                                const remat_compile_options *options, remat_order **out)
{
    *out = NULL;
    REMAT_CHECK(check_finished(ctx, graph));
    remat_order *order = *out = remat_handle_open(ctx, sizeof *order);
    if (!order)
        return REMAT_ERROR_MEMORY;
    struct order_job job = {.graph = graph, .options = options, .order = order};
    remat_status st = remat_guard(ctx, make_order, &job);
    if (st != REMAT_OK)
        remat_order_destroy(out);
    return st;
}

void remat_order_destroy(remat_order **order)
{
    remat_handle_close(*order);
    *order = NULL;
}

void remat_order_get_info(const remat_order *order, remat_order_info *out)
{
    remat_handle_give(&order->info, sizeof order->info, out);
}

const remat_order_run *remat_order_runs(const remat_order *order, uint32_t *out_count)
{
    *out_count = order->run_count;
    return order->runs;
}

/* --- curves --- */

static remat_status make_trade(void *user)
{
    struct order_job *job = user;
    remat_trade *trade = job->trade;
    struct remat_front front = {0};
    job->scratch = remat_scratch_open(trade->handle.ctx);
    REMAT_CHECK(read_options(job->scratch, job->options, &job->settings));
    REMAT_CHECK(remat_compile_front(trade->handle.ctx, job->scratch, job->graph->graph,
                                    &job->settings, &front));
    REMAT_NEW_UNINITIALIZED(&trade->handle.arena, trade->points, front.count);
    trade->count = front.count;
    for (uint32_t k = 0; k < front.count; k++)
        trade->points[k] = (remat_trade_point){front.points[k].live_peak_bytes,
                                               front.points[k].step_ns, front.points[k].bound_ns};
    remat_scratch_close(job->scratch);
    return REMAT_OK;
}

remat_status remat_trade_create(remat_context *ctx, const remat_graph_builder *graph,
                                const remat_compile_options *options, remat_trade **out)
{
    *out = NULL;
    REMAT_CHECK(check_finished(ctx, graph));
    remat_trade *trade = *out = remat_handle_open(ctx, sizeof *trade);
    if (!trade)
        return REMAT_ERROR_MEMORY;
    struct order_job job = {.graph = graph, .options = options, .trade = trade};
    remat_status st = remat_guard(ctx, make_trade, &job);
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
    *out_count = trade->count;
    return trade->points;
}
