/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals are popped by time. Each that is priced lowers the limit for those after it, which are
 * slower: in small graphs to just below its live peak, else to the next of evenly spaced limits. */
#include "amounts.h"
#include "queue.h"

#include <assert.h>
#include <stdlib.h>

enum {
    NODES_PRICED = 1000000, /* small: all graphs of all proposals together */
    ROOMS = 40,             /* between static memory and what everything saved takes */
    LAST_ROOMS = 20,        /* that the last one is divided into */
};

struct walk {
    struct remat_queue queue;
    struct REMAT_LIST(struct remat_front_point) points;
    uint64_t room_bytes;
    bool rough; /* the graph is large */
};

/* Larger first; of equal ones the fastest first. */
static int compare_points(const void *a, const void *b)
{
    const struct remat_front_point *x = a, *y = b;
    if (x->live_peak_bytes != y->live_peak_bytes)
        return x->live_peak_bytes > y->live_peak_bytes ? -1 : 1;
    if (x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return strcmp(x->policy, y->policy);
}

/* Sorts, and drops points that another one is as small and as fast as. */
static void sort_points(struct walk *w)
{
    struct remat_front_point *items = w->points.items;
    size_t kept = 0;
    if (w->points.count > 0)
        qsort(items, w->points.count, sizeof *items, compare_points);
    for (size_t i = 0; i < w->points.count; i++) {
        const struct remat_front_point point = items[i];
        if (kept > 0 && items[kept - 1].live_peak_bytes == point.live_peak_bytes)
            continue;
        while (kept > 0 && items[kept - 1].step_ns >= point.step_ns)
            kept--;
        items[kept++] = point;
    }
    w->points.count = kept;
}

/* Of a proposal that has been evaluated. Times saturate, and what takes that long is no plan:
 * remat_arrange refuses it. */
static struct remat_front_point add_point(struct walk *w, const struct remat_proposal *proposal)
{
    struct remat_search *s = w->queue.search;
    uint64_t ns = proposal->cost.step_ns, bytes = proposal->cost.live_peak_bytes;
    remat_keep_most(&bytes, s->fixed_live_bytes);
    uint64_t step_ns = remat_search_step_ns(s, ns < REMAT_SEGMENT_NS_MAX ? ns : 0);
    struct remat_front_point point = {proposal->name, bytes, step_ns, 0};
    if (step_ns)
        REMAT_PUSH(s->arena, &w->points, point);
    s->state.seen_count++;
    remat_keep_least(&s->state.best_ns, ns);
    remat_keep_least(&s->state.least_bytes, bytes);
    return point;
}

/* Everything saved is priced first: it says how far apart rooms are. */
static remat_status begin(struct walk *w, uint32_t policy_count)
{
    struct remat_search *s = w->queue.search;
    REMAT_CHECK(remat_search_plan(s, false));
    struct remat_proposals policies = remat_propose_policies(s);
    remat_proposal_evaluate(s, &policies.items[0], 0);
    add_point(w, &policies.items[0]);
    s->state.to_see_count = (uint32_t)policies.count + policy_count;
    remat_queue_add_policies(&w->queue, &policies);
    uint32_t added = w->queue.added_count;
    if (s->settings->solver == REMAT_SOLVER_PER_OP)
        remat_queue_add_planned(&w->queue);
    w->rough = (uint64_t)w->queue.added_count * s->graph->node_count > NODES_PRICED;
    w->room_bytes = (s->state.least_bytes - s->evaluator->persistent->total_bytes) / ROOMS + 1;
    s->state.to_see_count += w->queue.added_count - added;
    return REMAT_OK;
}

/* The live peak below which a slower decision is worth having beside one with that live peak. */
static uint64_t lower(const struct walk *w, uint64_t live_peak_bytes)
{
    uint64_t static_bytes = w->queue.search->evaluator->persistent->total_bytes;
    uint64_t below = live_peak_bytes - 1, room_bytes = w->rough ? w->room_bytes : 1;
    if (below < static_bytes + room_bytes)
        return below - below % (room_bytes / LAST_ROOMS + 1);
    return below - (below - static_bytes) % room_bytes;
}

static void walk(struct walk *w)
{
    struct remat_proposal proposal;
    uint64_t limit_bytes = UINT64_MAX;
    while (remat_queue_pop(&w->queue, limit_bytes, &proposal)) {
        remat_queue_evaluate(&w->queue, &proposal, limit_bytes);
        add_point(w, &proposal);
        if (proposal.cost.live_peak_bytes <= limit_bytes)
            limit_bytes = lower(w, proposal.cost.live_peak_bytes);
    }
    remat_proposals_show(w->queue.search, w->queue.name, w->queue.added_count,
                         w->queue.popped.items, w->queue.popped.count);
}

static void price(struct walk *w, struct remat_front *out)
{
    struct remat_search *s = w->queue.search;
    struct remat_proposals all = {0};
    REMAT_NEW(s->arena, out->priced, out->policy_count);
    for (uint32_t i = 0; i < out->policy_count && !remat_search_is_over(s); i++) {
        struct remat_proposal proposal = remat_propose_policy(&out->policies[i], 0);
        remat_proposal_evaluate(s, &proposal, 0);
        out->priced[i] = add_point(w, &proposal);
        REMAT_PUSH(s->arena, &all, proposal);
    }
    remat_proposals_show(s, "settings of other systems", out->policy_count, all.items, all.count);
}

remat_status remat_search_front(struct remat_search *s, struct remat_front *out)
{
    assert(out->policies || !out->policy_count);
    const struct remat_program *plan = out->plan;
    struct walk w = {.queue = {s, "the curve, fastest first", REMAT_FASTEST_FIRST, .curve = true}};
    REMAT_CHECK(begin(&w, out->policy_count));
    walk(&w);
    price(&w, out);
    if (plan)
        REMAT_PUSH(s->arena, &w.points,
                   ((struct remat_front_point){plan->policy, plan->peak_bytes, plan->step_ns, 0}));
    sort_points(&w);
    out->bounded = s->settings->solver == REMAT_SOLVER_PER_OP;
    for (uint32_t i = 0; i < w.points.count && out->bounded; i++) {
        struct remat_front_point *point = &w.points.items[i];
        uint64_t bound_ns = remat_planner_bound(s->planner, point->live_peak_bytes);
        point->bound_ns = remat_search_bound_ns(s, bound_ns);
        REMAT_CHECK(remat_search_check_bound(s, point->bound_ns, point->step_ns));
    }
    out->points = w.points.items;
    out->count = (uint32_t)w.points.count;
    out->decision_count = s->state.to_see_count;
    out->evaluated_count = s->state.seen_count;
    out->seen_count = s->over || w.rough ? s->state.seen_count : s->state.to_see_count;
    out->cut_short = s->over;
    out->base_ns = remat_search_step_ns(s, s->evaluator->base_ns);
    out->floor_bytes = out->bounded ? s->planner->floor_bytes : 0;
    out->reserve_bytes = s->reserve_bytes;
    return REMAT_OK;
}
