/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a host: what compiler/choose makes and compiler/report says of it. */
#include "compiled.h"

#include "advice_options.h"
#include "asked_settings.h"
#include "cubins.h"
#include "files.h"
#include "graph_file.h"

#include <stdlib.h>

const struct remat_planned *remat_compiled_planned(const remat_compiled *c)
{
    return &c->planned;
}

/* --- advice --- */

/* The graph with adapters, if the host makes one. */
static remat_status adapt(void *user, struct remat_arena *arena, const struct remat_graph *graph,
                          const struct remat_graph **out, const char **why)
{
    const remat_compiled *c = user;
    const remat_compile_options *o = c->options;
    struct remat_graph *made = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    (void)graph;
    *out = NULL;
    *why = "nobody makes the graph with adapters";
    if (!o->adapt)
        return REMAT_OK;
    REMAT_CHECK(
        o->adapt(o->adapt_user, arena->ctx, strtoll(ADVICE_LORA, NULL, 10), &data, &bytes, why));
    if (data)
        REMAT_CHECK(remat_graph_file_parse(arena->ctx, c->graph->label, data, bytes, arena, &made));
    *out = made;
    return REMAT_OK;
}

/* Only of a plan that is given all the time it takes. */
static bool is_advised(const remat_compiled *c)
{
    return c->options->advise && !remat_division_asked(&c->asked) &&
           !remat_asks(&c->asked, "time-limit") &&
           !strstr(remat_asked_text(&c->asked, "bind", ""), "=auto") &&
           !remat_is_ended(&c->request);
}

static remat_status advise(remat_compiled *c, const struct remat_advice_facts *facts,
                           struct remat_advices *out)
{
    return is_advised(c)
               ? remat_planned_advise(&c->request, &c->planned.asked, facts, adapt, c, out)
               : REMAT_OK;
}

static remat_status advise_planned(remat_compiled *c)
{
    struct remat_advice_facts facts;
    REMAT_CHECK(remat_advice_measure(c->request.arena, c->planned.program, &facts));
    return advise(c, &facts, &c->report.advices);
}

/* The message stays that of the refusal. */
static remat_status advise_refused(remat_compiled *c)
{
    remat_context *ctx = c->request.ctx;
    const char *message = remat_string(c->request.arena, remat_context_message(ctx),
                                       strlen(remat_context_message(ctx)));
    if (c->refused.refusal.smallest_bytes)
        REMAT_CHECK(advise(c, &c->refused.facts, &c->refused.advices));
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE, "%s", message);
}

/* --- plans --- */

remat_status remat_name_graph(remat_context *ctx, const char *label)
{
    char message[REMAT_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", remat_context_message(ctx));
    bool named = strncmp(message, label, strlen(label)) == 0;
    return remat_error(ctx, REMAT_ERROR_INVALID, "%s%s%s", named ? "" : label, named ? "" : ": ",
                       message);
}

/* Of many plans one is chosen, which is then made in full. */
static bool compares(const struct remat_asked *asked)
{
    return strstr(remat_asked_text(asked, "bind", ""), "=auto") || remat_division_asked(asked);
}

/* A choice can be ended; where there is none, a time limit is a mistake. */
static remat_status watch(remat_compiled *c)
{
    const struct remat_search_settings *search = &c->request.settings.search;
    bool searches =
        (search->has_budget && !remat_policy_given(&search->policy)) || compares(&c->asked);
    if (searches)
        remat_watch_request(c->options, !compares(&c->asked), &c->request);
    else if (remat_asks(&c->asked, "time-limit"))
        return remat_error(
            c->request.ctx, REMAT_ERROR_USAGE,
            "--time-limit needs a search: --budget without a policy, --curve, or auto");
    return REMAT_OK;
}

/* Without a plan: what the message does not say. */
static remat_status conclude(remat_compiled *c, remat_status st)
{
    remat_context *ctx = c->request.ctx;
    const struct remat_divisions *divisions = c->planned.divisions;
    if (st == REMAT_ERROR_INVALID)
        st = remat_name_graph(ctx, c->asked.model);
    if (divisions && divisions->reasons)
        remat_text_append(&c->lines, "%s", divisions->reasons);
    if (st == REMAT_ERROR_INFEASIBLE)
        st = advise_refused(c);
    if (st == REMAT_ERROR_INFEASIBLE || (st == REMAT_ERROR_CUT_SHORT && c->refused.proven_bytes)) {
        c->is_refused = c->refused.refusal.smallest_bytes != 0;
        return remat_refusal_conclude(ctx, &c->refused, &c->lines);
    }
    if (st == REMAT_ERROR_CUT_SHORT && c->explain.count)
        remat_refusal_explain_nothing(&c->lines);
    return st;
}

static remat_status compile(void *user)
{
    remat_compiled *c = user;
    struct remat_request *r = &c->request;
    const remat_compile_options *o = c->options;
    REMAT_CHECK(remat_read_options(&c->handle, o, c->graph, &c->asked, r));
    remat_settings_warn(r->ctx, &r->settings);
    c->lines.arena = r->arena;
    for (size_t i = 0; i < o->explain.count; i++)
        REMAT_PUSH(r->arena, &c->explain,
                   remat_string(r->arena, o->explain.items[i], strlen(o->explain.items[i])));
    REMAT_CHECK(remat_cubins_check(r->ctx, &c->asked));
    r->settings.needs_cuda = o->cuda || remat_cubins_asked(&c->asked);
    REMAT_CHECK(watch(c));
    remat_refusal_watch(r->arena, &c->explain, &r->settings, &c->refused);
    remat_status st = remat_plan_asked(r, false, &c->planned);
    if (st != REMAT_OK)
        return conclude(c, st);
    REMAT_CHECK(remat_report_plan(r->arena, &c->planned, &c->report));
    return advise_planned(c);
}

remat_status remat_compiled_create(remat_context *ctx, const remat_graph_builder *graph,
                                   const remat_compile_options *options, remat_compiled **out)
{
    *out = NULL;
    REMAT_CHECK(remat_check_finished(ctx, graph));
    REMAT_CHECK(remat_handle_check(ctx, options, "options"));
    remat_compiled *c = *out = remat_handle_open(ctx, "plan", sizeof *c);
    if (!c)
        return REMAT_ERROR_MEMORY;
    c->options = options;
    c->graph = graph;
    remat_status st = remat_guard(ctx, compile, c);
    c->options = NULL;
    c->graph = NULL;
    if (st != REMAT_OK) {
        c->planned.program = NULL;
        if (!c->is_refused && !c->lines.count)
            remat_compiled_destroy(out);
    }
    return st;
}

void remat_compiled_destroy(remat_compiled **compiled)
{
    remat_handle_close(*compiled);
    *compiled = NULL;
}

void remat_compiled_get_info(const remat_compiled *c, remat_compiled_info *out)
{
    remat_compiled_info info = {.struct_size = sizeof info};
    const struct remat_program *p = c->planned.program;
    if (p)
        info = (remat_compiled_info){.struct_size = sizeof info,
                                     .planned = true,
                                     .policy = p->policy,
                                     .foreign = p->foreign,
                                     .budget_bytes = p->budget_bytes,
                                     .reserve_bytes = p->reserve_bytes,
                                     .arena_bytes = p->arena_bytes,
                                     .peak_bytes = p->peak_bytes,
                                     .static_bytes = p->static_bytes,
                                     .step_ns = p->step_ns,
                                     .base_step_ns = p->base_step_ns,
                                     .bound_step_ns = p->bound_step_ns,
                                     .floor_bytes = p->floor_bytes,
                                     .microbatches = c->planned.settings.passes.microbatches,
                                     .ranks = remat_mesh_ranks(&c->planned.settings.mesh),
                                     .bindings = c->planned.bindings};
    remat_handle_give(&info, sizeof info, out);
}

/* --- files --- */

static remat_status make_data(void *user)
{
    remat_compiled *c = user;
    return remat_program_write(c->handle.ctx, c->planned.program, &c->handle.arena, &c->data,
                               &c->bytes);
}

remat_status remat_check_planned(remat_context *ctx, const remat_compiled *c)
{
    REMAT_CHECK(remat_handle_check(ctx, c, "plan"));
    return c->planned.program ? REMAT_OK
                              : remat_error(ctx, REMAT_ERROR_USAGE, "there is no plan: none fits");
}

remat_status remat_compiled_data(remat_context *ctx, remat_compiled *c, const void **out_data,
                                 size_t *out_bytes)
{
    REMAT_CHECK(remat_check_planned(ctx, c));
    if (!c->data)
        REMAT_CHECK(remat_guard(c->handle.ctx, make_data, c));
    *out_data = c->data;
    *out_bytes = c->bytes;
    return REMAT_OK;
}

remat_status remat_compiled_write(remat_context *ctx, remat_compiled *c, const char *path)
{
    const void *data;
    size_t bytes;
    REMAT_CHECK(remat_compiled_data(ctx, c, &data, &bytes));
    return remat_file_write(ctx, path, data, bytes);
}
