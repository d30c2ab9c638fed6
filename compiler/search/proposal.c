/* SPDX-License-Identifier: Apache-2.0 */
#include "proposal.h"

#include <inttypes.h>
#include <stdlib.h>

static void decide(struct remat_search *s, struct remat_arena *arena,
                   const struct remat_proposal *proposal, struct remat_notes *notes,
                   struct remat_decision *out)
{
    remat_stopwatch_start(s->watch);
    if (proposal->policy)
        remat_policy_decide(s->ground, arena, proposal->policy, out, notes);
    else if (remat_is_none(proposal->path))
        remat_planner_near(s->planner, arena, proposal->step, out);
    else
        remat_planner_decide(s->planner, arena, proposal->path, proposal->step, out);
    remat_stopwatch_lap(s->watch, REMAT_LAP_DECIDE);
}

void remat_proposal_find_least(struct remat_search *s, struct remat_proposal *proposal)
{
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    decide(s, s->scratch, proposal, &ignored, &decision);
    proposal->least = remat_planner_least(s->planner, s->scratch, &decision);
    remat_arena_reset(s->scratch);
}

uint64_t remat_proposal_live_peak(struct remat_search *s, struct remat_proposal proposal)
{
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    decide(s, s->scratch, &proposal, &ignored, &decision);
    uint64_t bytes = remat_evaluate(s->evaluator, &decision).live_peak_bytes;
    remat_arena_reset(s->scratch);
    return bytes;
}

void remat_proposal_evaluate(struct remat_search *s, struct remat_proposal *proposal,
                             uint64_t limit_bytes)
{
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    decide(s, s->scratch, proposal, &ignored, &decision);
    proposal->cost =
        remat_evaluate_packed(s->evaluator, &decision, limit_bytes, s->settings->guard_bytes);
    if (proposal->cost.arena_bytes < s->fixed_arena_bytes)
        proposal->cost.arena_bytes = s->fixed_arena_bytes;
    remat_arena_reset(s->scratch);
}

void remat_proposals_show(struct remat_search *s, const char *name, uint32_t all,
                          const struct remat_proposal *proposals, size_t count)
{
    struct remat_tried_list list = {.name = name, .proposal_count = all};
    struct remat_tried *tried;
    if (!s->settings->tried)
        return;
    REMAT_NEW(s->planning, tried, count);
    for (size_t i = 0; i < count; i++) {
        const struct remat_proposal *p = &proposals[i];
        if (p->cost.step_ns)
            tried[list.count++] = (struct remat_tried){
                .policy = p->name,
                .path = p->path,
                .step = p->step,
                .step_ns = remat_search_step_ns(s, p->cost.step_ns),
                .least_bytes = p->least.live_bytes,
                .live_peak_bytes = p->cost.live_peak_bytes,
                .arena_bytes = p->cost.arena_bytes,
                .fits = p->cost.arena_bytes != UINT64_MAX && p->cost.arena_bytes <= s->limit_bytes};
    }
    list.items = tried;
    s->settings->tried(s->settings->search_user, &list);
}

static int compare_least(const void *a, const void *b)
{
    const struct remat_proposal *x = a, *y = b;
    if (x->least.step_ns != y->least.step_ns)
        return x->least.step_ns < y->least.step_ns ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Lists of ops often come to the same. */
static void drop_twins(struct remat_proposals *proposals)
{
    size_t kept = 0;
    for (size_t i = 0; i < proposals->count; i++) {
        const struct remat_proposal proposal = proposals->items[i];
        bool twin = false;
        for (size_t k = kept; k-- > 0 && !twin;) {
            if (proposals->items[k].least.step_ns != proposal.least.step_ns)
                break;
            twin = proposals->items[k].least.effect == proposal.least.effect;
        }
        if (!twin)
            proposals->items[kept++] = proposal;
    }
    proposals->count = kept;
}

/* Nothing and full recomputation, one of which is likely to do. */
static bool is_extreme(const struct remat_policy *policy, uint32_t most_layers)
{
    return policy->granularity == REMAT_POLICY_NONE ||
           (policy->granularity == REMAT_POLICY_LAYERS && policy->group == 1 &&
            policy->layer_count == most_layers);
}

void remat_proposals_bound(struct remat_search *s, struct remat_proposals *policies)
{
    size_t kept = 0;
    uint32_t most_layers = 0;
    for (size_t i = 0; i < policies->count; i++)
        if (policies->items[i].policy->layer_count > most_layers)
            most_layers = policies->items[i].policy->layer_count;
    for (size_t i = 0; i < policies->count; i++) {
        struct remat_proposal policy = policies->items[i];
        if (!is_extreme(policy.policy, most_layers) && remat_search_is_over(s))
            continue;
        remat_proposal_find_least(s, &policy);
        policies->items[kept++] = policy;
    }
    policies->count = kept;
    qsort(policies->items, policies->count, sizeof *policies->items, compare_least);
    drop_twins(policies);
}

remat_status remat_proposal_carry(struct remat_search *s, const struct remat_proposal *proposal,
                                  struct remat_notes *notes, struct remat_chosen *out)
{
    struct remat_evaluator *evaluator;
    struct remat_graph *graph;
    *out = (struct remat_chosen){.name = proposal->name};
    decide(s, s->arena, proposal, notes, &out->decision);
    remat_stopwatch_start(s->watch);
    evaluator = remat_evaluator_for(s->evaluator, &out->decision);
    graph = remat_rewrite(s->arena, &evaluator->clones, &out->decision);
    remat_stopwatch_lap(s->watch, REMAT_LAP_CLONE);
    REMAT_CHECK(remat_arrange(s->ctx, s->arena, graph, s->statics, &s->settings->device, s->watch,
                              &out->arranged));
    remat_stopwatch_start(s->watch);
    REMAT_CHECK(remat_place(s->ctx, s->arena, s->statics, &out->arranged.lifespans,
                            s->settings->guard_bytes, &out->arena_bytes));
    remat_stopwatch_lap(s->watch, REMAT_LAP_PLACE);
    if (out->arena_bytes < s->fixed_arena_bytes)
        out->arena_bytes = s->fixed_arena_bytes;
    if (out->arranged.step_ns != proposal->cost.step_ns ||
        out->arena_bytes != proposal->cost.arena_bytes)
        return remat_error(s->ctx, REMAT_ERROR_INTERNAL,
                           "policy \"%s\": evaluated to %" PRIu64 " ns and an arena of %" PRIu64
                           " B, carried through to %" PRIu64 " ns and %" PRIu64 " B",
                           proposal->name, proposal->cost.step_ns, proposal->cost.arena_bytes,
                           out->arranged.step_ns, out->arena_bytes);
    return REMAT_OK;
}
