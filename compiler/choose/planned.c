/* SPDX-License-Identifier: Apache-2.0 */
#include "planned.h"

#include "asked_settings.h"
#include "bindings.h"
#include "notes.h"
#include "size.h"
#include "size_trials.h"

#include <inttypes.h>

bool remat_has_pins(const struct remat_graph *graph, const struct remat_policy_settings *settings)
{
    bool pins = settings->save_count || settings->recompute_count;
    for (uint32_t v = 0; v < graph->value_count; v++)
        pins |= graph->values[v].pin != REMAT_PIN_NONE;
    return pins;
}

/* The policy of a program: that of the settings, or the manual policy of its name. NULL without
 * pins, when the layers of the program are those of the policy. */
static remat_status find_chosen(const struct remat_request *r, struct remat_planned *out)
{
    remat_status st = REMAT_OK;
    struct remat_policies policies = {0};
    const struct remat_policy_settings *settings = &out->settings.search.policy;
    const struct remat_graph graph = remat_graph_on_mesh(out->graph, &out->settings.mesh);
    out->chosen = NULL;
    if (!remat_has_pins(out->graph, settings))
        return REMAT_OK;
    if (remat_policy_given(settings)) {
        struct remat_policy policy;
        REMAT_TRY(remat_policy_resolve(r->ctx, r->arena, &graph, settings, &policy));
        REMAT_PUSH(r->arena, &policies, policy);
    } else {
        remat_manual_policies(r->arena, &graph, &policies);
    }
    for (uint32_t i = 0; i < policies.count && !out->chosen; i++)
        if (strcmp(policies.items[i].name, out->program->policy) == 0)
            out->chosen = &policies.items[i];
fail:
    return st;
}

static remat_status add_notes(const struct remat_request *r, struct remat_planned *out)
{
    remat_status st = REMAT_OK;
    const struct remat_device_description *device = &out->settings.device;
    if (device->profile)
        REMAT_TRY(remat_unnamed_note(r->arena, out->program));
    REMAT_TRY(remat_positions_note(r->arena, out->program));
    if (device->cuda_arch)
        REMAT_TRY(remat_unaligned_note(r->arena, out->program));
    if (device->rocm_arch)
        REMAT_TRY(remat_notes_add(r->arena, out->program,
                                  "remat makes no code for %s (%s): this plan shows memory and "
                                  "time, and cannot run there",
                                  device->name, device->rocm_arch));
    if (out->cut_short)
        REMAT_TRY(remat_notes_add(
            r->arena, out->program,
            "the search for %s was cut short: what was found by then depends on the machine",
            out->divisions ? "a division" : out->sizes->symbol));
fail:
    return st;
}

/* Of a division, and of pieces of gradients. */
static remat_status make(const struct remat_request *r, bool without_plan,
                         struct remat_planned *out)
{
    remat_status st = REMAT_OK;
    const struct remat_divisions *divisions = out->divisions;
    out->settings = r->settings;
    REMAT_TRY_NEW(r->arena, out->sizes, 1);
    REMAT_TRY(remat_sizes_choose(r, out->sizes, &out->bindings));
    REMAT_TRY(remat_settings_record(r->arena, r->asked, out->bindings, &out->settings));
    REMAT_TRY(remat_asked_bind(r, &out->settings, out->bindings, r->arena, &out->graph));
    out->cut_short = out->sizes->cut_short || (divisions && divisions->cut_short);
    if (!out->sizes->symbol)
        out->sizes = NULL;
    if (without_plan)
        return REMAT_OK;
    struct remat_compile_settings in_full = out->settings;
    if (out->sizes || divisions)
        in_full.is_late = NULL; /* there was such a plan */
    if (out->cut_short)
        in_full.search.is_over = NULL;
    REMAT_TRY(remat_compile(r->ctx, r->arena, out->graph, &in_full, &out->program));
    REMAT_TRY(find_chosen(r, out));
    st = add_notes(r, out);
fail:
    return st;
}

/* With gradients in smaller pieces, the largest that fit. A refusal is that of the smallest, so
 * these are tried first. */
static remat_status make_in_pieces(struct remat_request *r, bool without_plan,
                                   struct remat_planned *out)
{
    remat_status st = REMAT_OK;
    struct remat_planned smallest;
    uint64_t bytes = REMAT_EXCHANGE_BYTES / 4;
    r->settings.passes.exchange_bytes = REMAT_SMALLEST_PIECE_BYTES;
    r->settings.search.briefly = false;
    REMAT_TRY(make(r, without_plan, out));
    smallest = *out;
    r->settings.search.briefly = true;
    for (st = REMAT_ERROR_INFEASIBLE;
         st == REMAT_ERROR_INFEASIBLE && bytes > REMAT_SMALLEST_PIECE_BYTES; bytes /= 4) {
        r->settings.passes.exchange_bytes = bytes;
        st = make(r, without_plan, out);
    }
    bool in_time = st != REMAT_ERROR_CUT_SHORT;
    if (st == REMAT_ERROR_INFEASIBLE || !in_time) {
        st = REMAT_OK;
        *out = smallest;
    }
    REMAT_TRY(st);
    if (out->program)
        REMAT_TRY(
            remat_notes_add(r->arena, out->program,
                            "gradients are exchanged in pieces of %s: in larger ones nothing %s",
                            remat_short_text(out->settings.passes.exchange_bytes).text,
                            in_time ? "fits" : "was found in time"));
fail:
    return st;
}

/* A step as the settings divide it. */
static remat_status make_divided(struct remat_request *r, bool without_plan,
                                 struct remat_planned *out)
{
    r->settings.search.briefly = remat_may_cut_gradients(r->asked, r->graph, &r->settings);
    remat_status st = make(r, without_plan, out);
    if (st == REMAT_ERROR_INFEASIBLE && r->settings.search.briefly)
        st = make_in_pieces(r, without_plan, out);
    return st;
}

remat_status remat_plan_asked(const struct remat_request *given, bool without_plan,
                              struct remat_planned *out)
{
    remat_status st = REMAT_OK;
    struct remat_request r = *given;
    struct remat_divisions *divisions;
    *out = (struct remat_planned){.asked = *given->asked};
    REMAT_TRY_NEW(r.arena, divisions, 1);
    st = remat_divisions_choose(&r, divisions, &out->asked);
    out->divisions = divisions->count ? divisions : NULL;
    REMAT_TRY(st);
    r.asked = &out->asked;
    st = make_divided(&r, without_plan, out);
fail:
    return st;
}

/* --- advice --- */

struct adviser {
    struct remat_request request; /* with the divided step's options */
    remat_adapt adapt;
    void *user;
};

struct smallest {
    struct remat_arena *arena;
    struct remat_advice_facts *facts;
    remat_status st;
};

static void keep_smallest(void *user, const struct remat_refusal *refusal)
{
    struct smallest *kept = user;
    if (!refusal->smallest)
        return;
    kept->st = remat_advice_measure(kept->arena, refusal->smallest, kept->facts);
    kept->facts->needed_bytes = refusal->smallest_bytes;
    kept->facts->step_ns = 0;
}

static remat_status plan_advised(void *user, struct remat_graph *graph,
                                 struct remat_compile_settings *settings,
                                 struct remat_advice_facts *out)
{
    const struct adviser *a = user;
    struct remat_request r = a->request;
    struct remat_arena *scratch = r.arena = remat_scratch_open(r.ctx);
    struct remat_planned planned = {0};
    struct smallest smallest = {scratch, out, REMAT_OK};
    r.graph = graph;
    r.settings = *settings;
    r.settings.after_pass = NULL;
    r.settings.pass_time = NULL;
    r.settings.search.bounded = NULL;
    r.settings.search.tried = NULL;
    r.settings.search.refused = keep_smallest;
    r.settings.search.refused_user = &smallest;
    r.settings.without_cuda = true;
    remat_status st = make_divided(&r, false, &planned);
    if (st == REMAT_OK)
        st = remat_advice_measure(scratch, planned.program, out);
    if (st == REMAT_ERROR_INFEASIBLE && smallest.st != REMAT_OK)
        st = smallest.st;
    if (remat_request_is_over(&r) || st == REMAT_ERROR_CUT_SHORT || st == REMAT_ERROR_USAGE ||
        st == REMAT_ERROR_INVALID)
        st = REMAT_ERROR_INFEASIBLE; /* nothing is known of it, or it cannot be */
    remat_scratch_close(scratch);
    return st;
}

static remat_status adapt(void *user, struct remat_arena *arena, const struct remat_graph *graph,
                          const struct remat_graph **out, const char **why)
{
    const struct adviser *a = user;
    return a->adapt(a->user, arena, graph, out, why);
}

remat_status remat_planned_advise(const struct remat_request *request,
                                  const struct remat_asked *asked,
                                  const struct remat_advice_facts *facts, remat_adapt make_adapters,
                                  void *user, struct remat_advices *out)
{
    struct adviser adviser = {*request, make_adapters, user};
    const struct remat_advice_planner planner = {plan_advised, adapt, &adviser};
    adviser.request.asked = asked;
    return remat_advise(request->ctx, request->arena, request->graph, &request->settings, facts,
                        &planner, out);
}
