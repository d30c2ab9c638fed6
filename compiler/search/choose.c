/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the plan for one budget: the fastest manual policy that fits, then whatever the planner
 * proposes that is faster and fits. Where nothing fits, looks for the smallest. */
#include <assert.h>
#include <inttypes.h>

#include "overlap.h"
#include "queue.h"

static void show_bound(struct remat_search *s)
{
    if (!s->settings->bounded || !s->state.bound_ns)
        return;
    struct remat_binding binding = remat_planner_binding(s->planner, s->planning, s->limit_bytes);
    binding.bound_ns = remat_search_bound_ns(s, s->state.bound_ns);
    binding.priced_ns = remat_search_bound_ns(s, binding.priced_ns);
    if (binding.kernel)
        s->settings->bounded(s->settings->search_user, &binding);
}

/* Tries its transfers at each depth, and blocking ones where none leaves room. */
static bool fits(struct remat_search *s, struct remat_proposal proposal, struct remat_proposal *out)
{
    bool found = false;
    for (uint32_t run = 0; run < remat_proposal_runs(s); run++) {
        remat_proposal_set_run(s, &proposal, run);
        if (found && proposal.blocking)
            break;
        remat_proposal_evaluate(s, &proposal, s->limit_bytes);
        bool fits = proposal.cost.arena_bytes <= s->limit_bytes;
        if (!found || (fits && proposal.cost.step_ns < out->cost.step_ns))
            *out = proposal;
        found |= fits;
    }
    return found;
}

/* The fastest policy that fits, of those that the system has flags for. */
static bool find_manual(struct remat_search *s, const struct remat_proposals *policies,
                        enum remat_system system, struct remat_proposal *out)
{
    struct remat_queue queue = {
        .search = s, .name = "manual policies, fastest first", .order = REMAT_FASTEST_FIRST};
    struct remat_proposals with = {0};
    if (system < REMAT_SYSTEM_COUNT)
        queue.name = REMAT_FORMAT(s->arena, "manual policies of %s", remat_system_name(system));
    for (size_t i = 0; i < policies->count; i++)
        if (remat_policy_flags(s->arena, policies->items[i].policy, system))
            REMAT_PUSH(s->arena, &with, policies->items[i]);
    remat_queue_add_policies(&queue, &with);
    return remat_queue_best(&queue, s->limit_bytes, false, out);
}

/* After a search that was ended with nothing found, and without asking the clock: everything saved,
 * full recomputation, the ends of the first path and of the smallest one of units, and the smallest
 * two-level decision. */
static remat_status rescue(struct remat_search *s, const struct remat_proposals *policies,
                           struct remat_proposal *out)
{
    const struct remat_proposal *full = policies->items; /* the last one of whole layers */
    for (size_t i = 0; i < policies->count; i++)
        if (policies->items[i].policy->granularity == REMAT_POLICY_LAYERS)
            full = &policies->items[i];
    struct remat_proposal end = remat_queue_end(s, (remat_path_id){0}), last = end;
    last.step += remat_path_twice_count(&s->planner->paths[0]);
    remat_proposal_find_least(s, &last);
    struct remat_proposal small[] = {policies->items[0], *full, end,
                                     remat_queue_end(s, s->planner->smallest_path),
                                     remat_queue_smallest(s, last, end.step)};
    uint32_t least = 0;
    for (uint32_t i = 0; i < (remat_search_per_op(s) ? 5 : 2); i++) {
        remat_proposal_find_least(s, &small[i]);
        if (small[i].least.live_bytes <= s->limit_bytes && fits(s, small[i], out))
            return REMAT_OK;
        least = small[i].least.live_bytes < small[least].least.live_bytes ? i : least;
    }
    if (s->limit_bytes >= s->floor_bytes)
        return remat_error(s->ctx, REMAT_ERROR_CUT_SHORT,
                           "the search was ended before it found a plan for %" PRIu64
                           " B; there may be one",
                           s->settings->budget_bytes);
    remat_proposal_evaluate(s, &small[least], UINT64_MAX);
    *out = small[least];
    return REMAT_OK;
}

/* By bytes more decisions are entries of their own than by time, so the smallest may still fit. */
static remat_status refuse(struct remat_search *s, const struct remat_proposals *policies,
                           struct remat_proposal *smallest)
{
    struct remat_queue queue = {.search = s,
                                .name = "nothing fits: all, smallest bound first",
                                .order = REMAT_SMALLEST_FIRST};
    remat_queue_add_policies(&queue, policies);
    if (remat_search_per_op(s))
        remat_queue_add_planned(&queue);
    if (!remat_queue_best(&queue, UINT64_MAX - 1, false, smallest))
        return rescue(s, policies, smallest);
    return REMAT_OK;
}

/* Times of a whole step by class. */
static struct remat_class_times times_of(const struct remat_search *s,
                                         struct remat_class_times decided)
{
    const struct remat_step_time one = {.times = decided};
    return remat_step_sum(s->step, &one).times;
}

/* Plans that errors in the costs could make the fastest. */
struct rivals {
    const struct remat_class_times *chosen;
    struct remat_proposals priced;
    struct REMAT_LIST(struct remat_class_times) times; /* of those that fit by their live peak */
};

static void add_rival(struct remat_search *s, struct remat_proposal proposal, struct rivals *rivals)
{
    const struct remat_class_times times = times_of(s, proposal.cost.times);
    if (!remat_sensitivity_may_lead(&times, rivals->chosen) ||
        remat_proposals_have(&rivals->priced, &proposal))
        return;
    REMAT_PUSH(s->arena, &rivals->priced, proposal);
    remat_proposal_evaluate(s, &proposal, 0);
    if (proposal.cost.live_peak_bytes <= s->limit_bytes)
        REMAT_PUSH(s->arena, &rivals->times, times);
}

/* With its transfers at each depth, and with blocking ones. */
static void add_rivals(struct remat_search *s, struct remat_proposal policy, struct rivals *rivals)
{
    struct remat_proposal runs[REMAT_DEPTHS_MAX];
    remat_proposal_find_least(s, &policy);
    if (policy.least.live_bytes > s->limit_bytes)
        return;
    const struct remat_class_times least =
        times_of(s, remat_proposal_computation(s, &policy).times);
    if (!remat_sensitivity_may_lead(&least, rivals->chosen))
        return;
    uint32_t count = s->evaluator->depths.count;
    if (count)
        count = remat_proposal_price_depths(s, &policy, UINT64_MAX, runs);
    for (uint32_t run = 0; run < count; run++)
        add_rival(s, runs[run], rivals);
    remat_proposal_set_run(s, &policy, remat_proposal_runs(s) - 1);
    remat_proposal_price(s, &policy);
    add_rival(s, policy, rivals);
}

/* Adds the note that compares `chosen` with the policies that fit, the fastest of which is
 * `manual`, also for costs with errors. Evaluates the policies that could then be faster. */
static void compare_manual(struct remat_search *s, const struct remat_proposals *policies,
                           const struct remat_proposal *chosen, const struct remat_proposal *manual)
{
    const struct remat_class_times mine = times_of(s, chosen->cost.times);
    struct rivals rivals = {.chosen = &mine};
    double slower = (double)remat_search_step_ns(s, manual->cost.step_ns) /
                        (double)remat_search_step_ns(s, chosen->cost.step_ns) -
                    1;
    REMAT_PUSH(s->arena, &rivals.times, mine);
    for (size_t i = 0; i < policies->count; i++) {
        if (remat_search_is_over(s))
            return;
        add_rivals(s, policies->items[i], &rivals);
    }
    struct remat_sensitivity sensitivity =
        remat_sensitivity_of(rivals.times.items, (uint32_t)rivals.times.count, 0);
    const char *rival = "the plan is a manual policy";
    if (!chosen->policy)
        rival =
            REMAT_FORMAT(s->arena, "the fastest manual policy that fits is \"%s\", %.2f %% slower",
                         manual->name, 100 * slower);
    const char *note = REMAT_FORMAT(s->arena,
                                    "%s; if matmul, attention or all else takes 20 %% less or more "
                                    "time than predicted, the plan "
                                    "is still ahead of every %smanual policy in %u of %u cases",
                                    rival, chosen->policy ? "other " : "", sensitivity.held,
                                    REMAT_SENSITIVITY_CASES);
    REMAT_PUSH(s->arena, &s->notes, note);
}

/* Finds the fastest proposal. manual: by system the fastest policy that fits, preferably one that
 * it has flags for; policy NULL where none fits. */
static remat_status choose_freely(struct remat_search *s, struct remat_proposal *best,
                                  struct remat_proposal *manual)
{
    struct remat_queue queue = {
        .search = s, .name = "paths and neighbours, fastest first", .order = REMAT_FASTEST_FIRST};
    struct remat_proposals policies = remat_propose_policies(s);
    bool hopeless = s->limit_bytes < s->floor_bytes;
    bool by_hand = !hopeless && find_manual(s, &policies, REMAT_SYSTEM_COUNT, best);
    bool found = by_hand;
    for (enum remat_system k = 0; by_hand && k < REMAT_SYSTEM_COUNT; k++)
        manual[k] = *best;
    if (!hopeless && remat_search_per_op(s)) {
        remat_queue_add_planned(&queue);
        found = remat_queue_best(&queue, s->limit_bytes, found, best);
    }
    if (!found && s->settings->briefly && !s->over)
        return remat_search_refuse_briefly(s);
    if (!found)
        return s->over ? rescue(s, &policies, best) : refuse(s, &policies, best);
    if (!by_hand && !s->over)
        REMAT_PUSH(s->arena, &s->notes, "no manual policy fits");
    if (by_hand && !s->over) {
        compare_manual(s, &policies, best, manual);
        for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
            if (!remat_policy_flags(s->arena, manual[k].policy, k))
                find_manual(s, &policies, k, &manual[k]);
    }
    return REMAT_OK;
}

static remat_status choose_given(struct remat_search *s, struct remat_proposal *best)
{
    struct remat_policy *policy;
    REMAT_NEW(s->arena, policy, 1);
    REMAT_CHECK(remat_policy_resolve(s->ctx, s->arena, s->graph, &s->settings->policy, policy));
    if (!fits(s, remat_propose_policy(policy, 0), best))
        remat_proposal_evaluate(s, best, UINT64_MAX);
    return REMAT_OK;
}

/* Arranges the decision as it was evaluated. */
static remat_status carry_out(struct remat_search *s, const struct remat_proposal *proposal,
                              struct remat_chosen *out)
{
    struct remat_evaluator *e = s->evaluator;
    *out = (struct remat_chosen){.name = proposal->name};
    out->decision = remat_proposal_decide(s, s->arena, proposal, &s->notes);
    out->decision.reasons = remat_copy(s->arena, out->decision.reasons, s->graph->value_count,
                                       sizeof *out->decision.reasons); /* outlive the model */
    struct remat_arrangement *a = &out->arranged;
    remat_evaluator_forget(e);
    *a = remat_evaluator_arrange(e, s->planning, &out->decision);
    REMAT_CHECK(
        remat_price_check_list(s->ctx, a->graph, &a->kernels, a->prices, s->evaluator->device));
    out->arena_bytes = proposal->cost.arena_bytes;
    assert(a->step_ns == proposal->cost.step_ns);
    return REMAT_OK;
}

static const char *name_stream(const struct remat_search *s, uint32_t stream)
{
    if (stream == REMAT_STREAMS)
        return NULL;
    return stream < REMAT_STREAM_LINKS ? "computation"
                                       : s->graph->mesh.axes[stream - REMAT_STREAM_LINKS].name;
}

remat_status remat_choose(struct remat_search *s, struct remat_chosen *out)
{
    assert(s->evaluator && s->policy_facts);
    struct remat_proposal best, manual[REMAT_SYSTEM_COUNT] = {0};
    if (s->settings->has_budget)
        REMAT_CHECK(remat_search_plan(s, false));
    if (s->settings->has_budget && !remat_policy_given(&s->settings->policy)) {
        REMAT_CHECK(choose_freely(s, &best, manual));
    } else {
        REMAT_CHECK(choose_given(s, &best));
        for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
            manual[k] = best;
    }
    if (s->over)
        REMAT_PUSH(s->arena, &s->notes,
                   "the search was cut short: what was found by then depends on the machine");
    bool fits = best.cost.arena_bytes <= s->limit_bytes;
    if (!fits && s->settings->briefly)
        return remat_search_refuse_briefly(s);
    if (fits) {
        REMAT_CHECK(remat_search_check_bound(s, s->state.bound_ns, best.cost.step_ns));
        show_bound(s);
        remat_proposals_show(s, "the plan", 1, &best, 1);
    }
    REMAT_CHECK(carry_out(s, &best, out));
    for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
        out->manual[k] = (struct remat_timed_policy){manual[k].policy, manual[k].cost.step_ns};
    out->fits = fits;
    out->bound_ns = s->state.bound_ns;
    if (out->bound_ns)
        out->limited_by = name_stream(s, remat_planner_limits(s->planner, s->limit_bytes));
    if (remat_search_per_op(s) || (!fits && !remat_policy_given(&s->settings->policy)))
        out->floor_bytes = s->floor_bytes;
    return REMAT_OK;
}
