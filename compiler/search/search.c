/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <inttypes.h>

#include "infeasible.h"
#include "prepare.h"
#include "queue.h"
#include "sensitivity.h"

uint64_t remat_search_step_ns(const struct remat_search *s, uint64_t ns)
{
    return ns ? ns * remat_microbatches(s->settings) + s->update->step_ns : 0;
}

bool remat_search_is_over(struct remat_search *s)
{
    const struct remat_compile_settings *settings = s->settings;
    struct remat_search_state state = s->state;
    state.best_ns = remat_search_step_ns(s, state.best_ns);
    state.bound_ns = remat_search_step_ns(s, state.bound_ns);
    if (state.best_ns && state.bound_ns > state.best_ns)
        state.bound_ns = 0; /* never shown: remat_choose fails for it */
    if (!s->over && settings->is_over)
        s->over = settings->is_over(settings->is_over_user, &state);
    return s->over;
}

static void note_end(struct remat_search *s)
{
    if (s->over)
        REMAT_PUSH(s->arena, &s->notes,
                   "the search was cut short: what was found by then depends on the machine");
}

remat_status remat_search_policies(struct remat_search *s, bool manual, struct remat_proposals *out)
{
    const struct remat_policy_settings *given = &s->settings->policy;
    struct remat_policies policies = {0};
    if (manual) {
        remat_manual_policies(s->arena, s->graph, &policies);
    } else {
        struct remat_policy policy;
        REMAT_CHECK(remat_policy_resolve(s->ctx, s->arena, s->graph, given, &policy));
        REMAT_PUSH(s->arena, &policies, policy);
    }
    for (uint32_t i = 0; i < policies.count; i++) {
        struct remat_proposal proposal = {.name = policies.items[i].name,
                                          .policy = &policies.items[i],
                                          .path = REMAT_NONE,
                                          .step = i};
        REMAT_PUSH(s->arena, out, proposal);
    }
    return REMAT_OK;
}

remat_status remat_search_plan(struct remat_search *s)
{
    remat_status st = remat_price_check_list(s->ctx, s->graph, s->evaluator->settled->kernels,
                                             s->evaluator->prices, &s->settings->device);
    return st ? st
              : remat_planner_create(s->ctx, s->planning, s->evaluator, s->pinned, &s->planner);
}

remat_status remat_search_check_bound(struct remat_search *s, uint64_t bound_ns, uint64_t step_ns)
{
    if (bound_ns <= step_ns)
        return REMAT_OK;
    return remat_error(s->ctx, REMAT_ERROR_INTERNAL,
                       "the bound of %" PRIu64 " ns is above the plan's own %" PRIu64 " ns",
                       bound_ns, step_ns);
}

/* --- one budget --- */

struct run {
    struct remat_search *search;
    struct remat_proposals policies;
    bool per_op; /* the planner's decisions are proposals */
};

static struct remat_queue queue_of(const struct run *r, const char *name,
                                   enum remat_queue_order order)
{
    return (struct remat_queue){.search = r->search, .name = name, .order = order};
}

static void show_bound(const struct run *r)
{
    struct remat_search *s = r->search;
    struct remat_binding binding;
    if (!s->settings->bounded || !s->state.bound_ns)
        return;
    remat_planner_binding(r->search->planner, s->planning, s->limit_bytes, &binding);
    binding.bound_ns = remat_search_step_ns(s, s->state.bound_ns);
    if (binding.kernel)
        s->settings->bounded(s->settings->search_user, &binding);
}

/* The fastest policy that fits; `with_flags`: of those that Megatron has flags for. */
static bool find_manual(const struct run *r, bool with_flags, struct remat_proposal *out)
{
    bool found = false;
    struct remat_queue queue = queue_of(
        r, with_flags ? "manual policies with Megatron flags" : "manual policies, fastest first",
        REMAT_FASTEST_FIRST);
    struct remat_proposals with = {0};
    for (size_t i = 0; i < r->policies.count; i++)
        if (!with_flags ||
            remat_policy_megatron_flags(r->search->arena, r->policies.items[i].policy))
            REMAT_PUSH(r->search->arena, &with, r->policies.items[i]);
    remat_queue_add_policies(&queue, &with);
    remat_queue_fastest(&queue, r->search->limit_bytes, out, &found);
    return found;
}

static remat_status refuse(const struct run *r)
{
    struct remat_queue queue =
        queue_of(r, "nothing fits: all, smallest bound first", REMAT_SMALLEST_FIRST);
    struct remat_proposal smallest;
    remat_queue_add_policies(&queue, &r->policies);
    if (r->per_op)
        remat_queue_add_planned(&queue);
    return remat_queue_smallest(&queue, &smallest) ? remat_infeasible(r->search, &smallest)
                                                   : remat_infeasible_cut_short(r->search);
}

/* Live peaks of what the first path nests fall and then rise: bisection finds the smallest. */
static struct remat_proposal find_smallest_nested(const struct run *r)
{
    uint32_t low = remat_path_length(&r->search->planner->paths[0]) - 1;
    uint32_t high = low + remat_path_nested_count(&r->search->planner->paths[0]);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct remat_proposal here = remat_queue_step(0, middle);
        struct remat_proposal next = remat_queue_step(0, middle + 1);
        remat_proposal_evaluate(r->search, &here, 0);
        remat_proposal_evaluate(r->search, &next, 0);
        if (next.cost.live_peak_bytes < here.cost.live_peak_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return remat_queue_step(0, low);
}

/* As many groups as layers in each: if all layers are equal, no other groups hold less. */
static struct remat_proposal find_even_groups(const struct run *r)
{
    const struct remat_planner *p = r->search->planner;
    uint32_t path = 0;
    while (path + 1 < p->path_count &&
           (uint64_t)p->paths[path].group * p->paths[path].group < p->model.region_count)
        path++;
    return remat_queue_step(path, remat_path_length(&p->paths[path]) - 1);
}

static bool try(const struct run *r, const struct remat_proposal *proposal,
                struct remat_proposal *out)
{
    *out = *proposal;
    remat_proposal_evaluate(r->search, out, r->search->limit_bytes);
    return out->cost.arena_bytes <= r->search->limit_bytes;
}

/* When the search was ended with nothing found, without a look at the clock: everything saved, full
 * recomputation, the end of the first path, that of groups, and the smallest of what is nested. */
static remat_status rescue(const struct run *r, struct remat_proposal *out)
{
    const struct remat_proposal *full = &r->policies.items[0];
    struct remat_proposal step;
    bool found = false;
    if (r->search->limit_bytes < r->search->planner->floor_bytes)
        return remat_infeasible_cut_short(r->search);
    for (size_t i = 0; i < r->policies.count && !found; i++) {
        const struct remat_proposal *policy = &r->policies.items[i];
        if (policy->policy->granularity == REMAT_POLICY_NONE)
            found = try(r, policy, out);
        if (policy->policy->granularity == REMAT_POLICY_LAYERS && policy->policy->group == 1)
            full = policy; /* the slowest comes last */
    }
    found = found || try(r, full, out);
    if (!found && r->per_op) {
        step = remat_queue_step(0, remat_path_length(&r->search->planner->paths[0]) - 1);
        found = try(r, &step, out);
    }
    if (!found && r->per_op) {
        step = find_even_groups(r);
        found = try(r, &step, out);
    }
    if (!found && r->per_op) {
        step = find_smallest_nested(r);
        found = try(r, &step, out);
    }
    return found ? REMAT_OK : remat_infeasible_cut_short(r->search);
}

/* Of a whole step, by class. */
static struct remat_class_times times_of(const struct remat_search *s,
                                         struct remat_class_times decided)
{
    struct remat_class_times times = s->update->times;
    for (uint32_t k = 0; k < REMAT_COST_CLASSES; k++)
        times.ns[k] += decided.ns[k] * remat_microbatches(s->settings);
    return times;
}

/* The policy fits, and costs that are off could put it in front of what takes *chosen. */
static bool is_rival(struct remat_search *s, struct remat_proposal *policy,
                     const struct remat_class_times *chosen, struct remat_proposals *priced)
{
    remat_proposal_find_least(s, policy);
    if (policy->least.live_bytes > s->limit_bytes)
        return false;
    remat_proposal_price(s, policy, s->limit_bytes);
    const struct remat_class_times times = times_of(s, policy->cost.times);
    if (!remat_sensitivity_may_lead(&times, chosen) || remat_proposals_have(priced, policy))
        return false;
    REMAT_PUSH(s->arena, priced, *policy);
    remat_proposal_evaluate(s, policy, s->limit_bytes);
    return policy->cost.arena_bytes <= s->limit_bytes;
}

/* Adds the note on `chosen` against all policies that fit, the fastest of which is `manual`, also
 * with costs that are off. Evaluates those that could be in front then. */
static void compare_manual(struct remat_search *s, struct remat_proposals *policies,
                           const struct remat_proposal *chosen, const struct remat_proposal *manual)
{
    struct remat_class_times *times;
    struct remat_proposals priced = {0};
    uint32_t count = 1;
    double slower = (double)remat_search_step_ns(s, manual->cost.step_ns) /
                        (double)remat_search_step_ns(s, chosen->cost.step_ns) -
                    1;
    REMAT_NEW(s->arena, times, policies->count + 1);
    times[0] = times_of(s, chosen->cost.times);
    for (size_t i = 0; i < policies->count; i++) {
        if (remat_search_is_over(s))
            return;
        if (is_rival(s, &policies->items[i], &times[0], &priced))
            times[count++] = times_of(s, policies->items[i].cost.times);
    }
    struct remat_sensitivity sensitivity = remat_sensitivity_of(times, count, 0);
    const char *rival = "the plan is a manual policy";
    if (!chosen->policy)
        rival =
            REMAT_FORMAT(s->arena, "the fastest manual policy that fits is \"%s\", %.2f %% slower",
                         manual->name, 100 * slower);
    const char *note = REMAT_FORMAT(s->arena,
                                    "%s; with costs of matmul, attention or the rest 20 %% "
                                    "off no %sthat fits is faster in %u of "
                                    "%u cases",
                                    rival, chosen->policy ? "other " : "manual policy ",
                                    sensitivity.held, REMAT_SENSITIVITY_CASES);
    REMAT_PUSH(s->arena, &s->notes, note);
}

/* The fastest of all proposals. *manual: the fastest policy that fits, if possible of those that
 * Megatron has flags for; policy NULL where none does. */
static remat_status choose_freely(struct run *r, struct remat_proposal *best,
                                  struct remat_proposal *manual)
{
    struct remat_search *s = r->search;
    struct remat_queue queue =
        queue_of(r, "paths and neighbours, fastest first", REMAT_FASTEST_FIRST);
    bool by_hand = find_manual(r, false, manual), found = by_hand;
    *best = *manual;
    if (r->per_op) {
        remat_queue_add_planned(&queue);
        remat_queue_fastest(&queue, s->limit_bytes, best, &found);
    }
    if (!found)
        return s->over ? rescue(r, best) : refuse(r);
    if (by_hand && !s->over) {
        compare_manual(s, &r->policies, best, manual);
        if (!remat_policy_megatron_flags(s->arena, manual->policy))
            find_manual(r, true, manual);
    }
    return REMAT_OK;
}

static remat_status choose_given(const struct run *r, struct remat_proposal *best)
{
    *best = r->policies.items[0];
    remat_proposal_evaluate(r->search, best, UINT64_MAX);
    return best->cost.arena_bytes > r->search->limit_bytes ? remat_infeasible(r->search, best)
                                                           : REMAT_OK;
}

remat_status remat_choose(struct remat_search *s, struct remat_chosen *out)
{
    remat_status st = REMAT_OK;
    struct run r = {.search = s};
    struct remat_proposal best, manual = {0};
    bool free = s->settings->has_budget && !remat_policy_given(&s->settings->policy);
    s->scratch = remat_scratch_open(s->ctx);
    r.per_op = free && s->settings->solver == REMAT_SOLVER_PER_OP;
    if (s->settings->has_budget) {
        REMAT_TRY(remat_search_plan(s));
        if (s->limit_bytes >= s->planner->floor_bytes)
            s->state.bound_ns = remat_planner_bound(s->planner, s->limit_bytes);
    }
    REMAT_TRY(remat_search_policies(s, free, &r.policies));
    if (free) {
        REMAT_TRY(choose_freely(&r, &best, &manual));
    } else {
        REMAT_TRY(choose_given(&r, &best));
        manual = best;
    }
    note_end(s);
    REMAT_TRY(remat_search_check_bound(s, s->state.bound_ns, best.cost.step_ns));
    show_bound(&r);
    remat_proposals_show(s, "the plan", 1, &best, 1);
    remat_evaluator_forget(s->evaluator);
    REMAT_TRY(remat_proposal_carry(s, &best, &s->notes, out));
    out->manual = manual.policy;
    out->manual_ns = manual.cost.step_ns;
    out->bound_ns = s->state.bound_ns;
    out->floor_slack_ns = out->bound_ns ? s->planner->floor_slack_ns : 0;
    out->floor_bytes = r.per_op ? s->planner->floor_bytes : 0;
fail:
    remat_scratch_close(s->scratch);
    return st;
}
