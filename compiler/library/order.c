/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for a host: the compiler's own entry point, with its results copied. */
#include "library.h"

#include "bindings.h"

struct remat_order {
    struct remat_handle handle;
    remat_order_info info;
    const remat_order_run *runs;
    const remat_order_value *values;
    uint32_t run_count, value_count;
};

struct order_job { /* arguments of a guarded call */
    const remat_graph_builder *graph;
    const remat_compile_options *options;
    struct remat_handle scratch;
    remat_order *order;
};

static const char *copy_text(remat_order *order, const char *text)
{
    return remat_string(&order->handle.arena, text, strlen(text));
}

static void copy_runs(const struct remat_found_order *found, remat_order *order)
{
    remat_order_run *runs;
    REMAT_NEW_UNINITIALIZED(&order->handle.arena, runs, found->run_count);
    for (uint32_t k = 0; k < found->run_count; k++)
        runs[k] = (remat_order_run){found->runs[k].node.i, found->runs[k].round,
                                    found->runs[k].position, found->runs[k].stored};
    order->runs = runs;
    order->run_count = found->run_count;
}

static void copy_values(const struct remat_found_order *found, remat_order *order)
{
    remat_order_value *values;
    REMAT_NEW(&order->handle.arena, values, found->decision_count);
    for (uint32_t k = 0; k < found->decision_count; k++) {
        const struct remat_decision_record *record = &found->decisions[k];
        values[k] = (remat_order_value){.name = copy_text(order, record->name),
                                        .scope = copy_text(order, record->scope),
                                        .action = remat_action_name(record->action),
                                        .reason = copy_text(order, record->reason),
                                        .bytes = record->bytes,
                                        .recomputable = record->recomputable,
                                        .recompute_extra_ns = record->recompute_extra_ns};
    }
    order->values = values;
    order->value_count = found->decision_count;
}

static remat_status make_order(void *user)
{
    struct order_job *job = user;
    remat_order *order = job->order;
    struct remat_found_order found;
    struct remat_asked asked;
    struct remat_request r;
    struct remat_graph *graph;
    REMAT_CHECK(remat_read_options(&job->scratch, job->options, job->graph, &asked, &r));
    if (remat_division_asked(&asked))
        return remat_error(r.ctx, REMAT_ERROR_USAGE,
                           "an order has one division: --ranks and --microbatches auto are for "
                           "remat_compiled_create");
    r.settings.without_cuda = true;
    remat_watch_request(job->options, false, &r);
    REMAT_CHECK(
        remat_asked_bind(&r, &r.settings, remat_asked_text(&asked, "bind", ""), r.arena, &graph));
    REMAT_CHECK(remat_compile_order(r.ctx, r.arena, graph, &r.settings, &found));
    copy_runs(&found, order);
    copy_values(&found, order);
    order->info = (remat_order_info){.struct_size = sizeof order->info,
                                     .policy = copy_text(order, found.policy),
                                     .arena_bytes = found.arena_bytes,
                                     .peak_bytes = found.live_peak_bytes,
                                     .static_bytes = found.static_bytes,
                                     .reserve_bytes = found.reserve_bytes,
                                     .step_ns = found.step_ns,
                                     .base_step_ns = found.base_ns,
                                     .bound_step_ns = found.bound_ns,
                                     .floor_bytes = found.floor_bytes,
                                     .cut_short = found.cut_short};
    return REMAT_OK;
}

remat_status remat_order_create(remat_context *ctx, const remat_graph_builder *graph,
                                const remat_compile_options *options, remat_order **out)
{
    *out = NULL;
    REMAT_CHECK(remat_check_finished(ctx, graph));
    REMAT_CHECK(remat_handle_check(ctx, options, "options"));
    remat_order *order = *out = remat_handle_open(ctx, "order", sizeof *order);
    if (!order)
        return REMAT_ERROR_MEMORY;
    struct order_job job = {.graph = graph, .options = options, .order = order};
    job.scratch.ctx = ctx;
    remat_arena_init(&job.scratch.arena, ctx);
    remat_status st = remat_guard(ctx, make_order, &job);
    remat_arena_release(&job.scratch.arena);
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

const remat_order_value *remat_order_values(const remat_order *order, uint32_t *out_count)
{
    *out_count = order->value_count;
    return order->values;
}
