/* SPDX-License-Identifier: Apache-2.0 */
#include "proposal.h"

struct remat_proposal remat_propose_policy(const struct remat_policy *policy, uint32_t step)
{
    assert(policy);
    return (struct remat_proposal){
        .name = policy->name, .policy = policy, .path = REMAT_NO_PATH, .step = step};
}

uint32_t remat_proposal_runs(const struct remat_search *s)
{
    return s->evaluator->depths.count + 1;
}

void remat_proposal_set_run(const struct remat_search *s, struct remat_proposal *proposal,
                            uint32_t run)
{
    const struct remat_depths *depths = &s->evaluator->depths;
    assert(run <= depths->count);
    proposal->blocking = depths->count && run == depths->count;
    proposal->depth = run < depths->count ? depths->items[run] : 0;
    proposal->cost = (struct remat_evaluation){0};
}

struct remat_proposals remat_propose_policies(struct remat_search *s)
{
    struct remat_policies policies = {0};
    struct remat_proposals out = {0};
    remat_manual_policies(s->arena, s->graph, &policies);
    for (uint32_t i = 0; i < policies.count; i++)
        REMAT_PUSH(s->arena, &out, remat_propose_policy(&policies.items[i], i));
    return out;
}

struct remat_decision remat_proposal_decide(struct remat_search *s, struct remat_arena *arena,
                                            const struct remat_proposal *proposal,
                                            struct remat_notes *notes)
{
    assert(proposal->policy || s->planner);
    struct remat_decision out;
    remat_stopwatch_start(s->evaluator->watch);
    if (proposal->policy)
        remat_policy_decide(s->policy_facts, arena, proposal->policy, &out, notes);
    else
        remat_planner_decide(s->planner, arena, proposal->path, proposal->step, &out);
    out.blocking = proposal->blocking;
    out.depth = proposal->depth;
    remat_stopwatch_lap(s->evaluator->watch, REMAT_LAP_DECIDE);
    return out;
}

void remat_proposal_find_least(struct remat_search *s, struct remat_proposal *proposal)
{
    assert(s->planner);
    struct remat_decision decision = remat_proposal_decide(s, s->scratch, proposal, NULL);
    proposal->least = remat_planner_least(s->planner, s->scratch, &decision);
    proposal->least.step_ns += proposal->blocking ? s->evaluator->overlapped_ns : 0;
    remat_arena_reset(s->scratch);
}

struct remat_evaluation remat_proposal_computation(struct remat_search *s,
                                                   const struct remat_proposal *proposal)
{
    struct remat_decision decision = remat_proposal_decide(s, s->scratch, proposal, NULL);
    struct remat_evaluation cost = remat_evaluate_computation(s->evaluator, &decision);
    remat_arena_reset(s->scratch);
    return cost;
}

uint32_t remat_proposal_price_depths(struct remat_search *s, const struct remat_proposal *proposal,
                                     uint64_t limit_ns, struct remat_proposal out[REMAT_DEPTHS_MAX])
{
    struct remat_evaluation costs[REMAT_DEPTHS_MAX];
    struct remat_decision decision = remat_proposal_decide(s, s->scratch, proposal, NULL);
    uint32_t count = remat_evaluate_depths(s->evaluator, &decision, limit_ns, costs);
    for (uint32_t run = 0; run < count && run < REMAT_DEPTHS_MAX; run++) { /* gcc warns of more */
        struct remat_proposal one = *proposal;
        one.any_depth = false;
        one.index += run;
        remat_proposal_set_run(s, &one, run);
        one.cost = costs[run];
        out[run] = one;
    }
    remat_arena_reset(s->scratch);
    return count;
}

static void evaluate(struct remat_search *s, const struct remat_decision *decision,
                     uint64_t limit_bytes, struct remat_evaluation *cost)
{
    *cost = remat_evaluate(s->evaluator, decision, limit_bytes);
    remat_keep_most(&cost->arena_bytes, s->fixed_arena_bytes);
}

void remat_proposal_price(struct remat_search *s, struct remat_proposal *proposal)
{
    struct remat_decision decision = remat_proposal_decide(s, s->scratch, proposal, NULL);
    proposal->cost = remat_evaluate_time(s->evaluator, &decision);
    remat_arena_reset(s->scratch);
}

void remat_proposal_evaluate(struct remat_search *s, struct remat_proposal *proposal,
                             uint64_t limit_bytes)
{
    const struct remat_evaluation *cost = &proposal->cost;
    if (cost->live_peak_bytes > limit_bytes ||
        (cost->live_peak_bytes && cost->arena_bytes != UINT64_MAX))
        return;
    struct remat_decision decision = remat_proposal_decide(s, s->scratch, proposal, NULL);
    evaluate(s, &decision, limit_bytes, &proposal->cost);
    assert(cost->live_peak_bytes >= proposal->least.live_bytes);
    remat_arena_reset(s->scratch);
}

bool remat_proposals_have(const struct remat_proposals *proposals,
                          const struct remat_proposal *proposal)
{
    for (size_t i = proposals->count; i-- > 0;)
        if (proposals->items[i].cost.effect == proposal->cost.effect &&
            proposals->items[i].blocking == proposal->blocking &&
            proposals->items[i].depth == proposal->depth &&
            proposals->items[i].cost.step_ns == proposal->cost.step_ns)
            return true;
    return false;
}

void remat_proposals_show(struct remat_search *s, const char *name, uint32_t all,
                          const struct remat_proposal *proposals, size_t count)
{
    struct remat_tried_list list = {.name = name, .proposal_count = all};
    struct remat_tried *tried;
    if (!s->settings->tried || !all)
        return;
    REMAT_NEW(s->planning, tried, count);
    for (size_t i = 0; i < count; i++) {
        const struct remat_proposal *p = &proposals[i];
        if (p->cost.live_peak_bytes)
            tried[list.count++] = (struct remat_tried){
                .policy = p->name,
                .path = p->path,
                .step = p->step,
                .least_ns = remat_search_step_ns(s, p->least.step_ns),
                .step_ns = remat_search_step_ns(s, p->cost.step_ns),
                .least_bytes = p->least.live_bytes,
                .live_peak_bytes = p->cost.live_peak_bytes,
                .arena_bytes = p->cost.arena_bytes,
                .fits = p->cost.arena_bytes != UINT64_MAX && p->cost.arena_bytes <= s->limit_bytes};
    }
    list.items = tried;
    s->settings->tried(s->settings->search_user, &list);
}
