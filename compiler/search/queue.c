/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

/* Graph nodes times decisions up to which each is an entry of its own, by the queue's order. */
static const uint64_t nodes_listed[] = {
    [REMAT_FASTEST_FIRST] = 2000000, [REMAT_SMALLEST_FIRST] = 20000000};

/* Graph nodes times decisions that are scheduled in any case to name a small budget. */
enum { REFUSAL_NODES = 1000000 };

static bool overlaps(const struct remat_queue *q)
{
    return q->search->evaluator->depths.count > 0;
}

static void push(struct remat_queue *q, struct remat_queue_entry entry)
{
    const struct remat_proposal *now = &entry.now;
    uint64_t ns = now->cost.step_ns ? now->cost.step_ns : now->least.step_ns;
    remat_keep_most(&entry.key, q->order == REMAT_SMALLEST_FIRST ? now->least.live_bytes : ns);
    if (overlaps(q))
        entry.tie_bytes = now->least.live_bytes;
    remat_queue_heap_push(q->search->arena, &q->heap, entry);
}

/* Decision `step` of a path, or one near corners. */
static struct remat_proposal planned(remat_path_id path, uint32_t step)
{
    return (struct remat_proposal){.name = "per-op", .path = path, .step = step};
}

struct remat_proposal remat_queue_end(const struct remat_search *s, remat_path_id path)
{
    return planned(path, remat_path_length(&s->planner->paths[path.i]) - 1);
}

/* Another step of the proposal's path or family of policies. */
static struct remat_proposal at_step(struct remat_search *s, struct remat_proposal proposal,
                                     uint32_t step)
{
    remat_unwind_if_late(s->ctx);
    if (proposal.policy) {
        proposal.policy += (int64_t)step - proposal.step;
        proposal.name = proposal.policy->name;
    }
    proposal.step = step;
    proposal.cost = (struct remat_evaluation){0};
    remat_proposal_find_least(s, &proposal);
    return proposal;
}

/* The smallest is usually near the end: searches backwards from there, in growing steps. */
struct remat_proposal remat_queue_smallest(struct remat_search *s, struct remat_proposal last,
                                           uint32_t first)
{
    assert(first <= last.step);
    struct remat_proposal smallest = last;
    for (uint32_t back = 1; first < smallest.step;) {
        uint32_t half = (smallest.step - first + 1) / 2;
        struct remat_proposal here = at_step(s, last, smallest.step - (back < half ? back : half));
        struct remat_proposal next = smallest;
        if (here.step + 1 < smallest.step && here.least.live_bytes <= smallest.least.live_bytes)
            next = at_step(s, last, here.step + 1);
        if (here.least.live_bytes > next.least.live_bytes)
            first = here.step + 1;
        else
            smallest = here;
        back += back < half ? back : 0;
    }
    return smallest;
}

/* --- adding --- */

/* The steps from `begin` on, without `end`. */
static void push_run(struct remat_queue *q, struct remat_proposal of, uint32_t begin, uint32_t end)
{
    struct remat_queue_entry entry = {.first = begin, .last = end - 1};
    if (begin == end)
        return;
    entry.now = q->order == REMAT_SMALLEST_FIRST
                    ? remat_queue_smallest(q->search, at_step(q->search, of, end - 1), begin)
                    : at_step(q->search, of, begin);
    entry.corner = entry.now;
    push(q, entry);
}

/* Adds a step with transfers that may be overlapped at any depth. */
static void push_depths(struct remat_queue *q, struct remat_proposal of, uint32_t step)
{
    of.any_depth = true;
    of.index = q->added_count;
    q->added_count += q->search->evaluator->depths.count;
    push_run(q, of, step, step + 1);
}

/* Adds the steps from `first` to `last`, with overlapped and with blocking transfers. Times of the
 * former may fall from step to step, so by time they are no run. */
static void add_entry(struct remat_queue *q, struct remat_proposal of, uint32_t first,
                      uint32_t last)
{
    uint32_t run = 0, runs = remat_proposal_runs(q->search);
    if (runs > 1 && q->order == REMAT_FASTEST_FIRST) {
        for (uint32_t at = first; at <= last && !remat_search_is_over(q->search); at++)
            push_depths(q, of, at);
        run = runs - 1;
    }
    for (; run < runs && !remat_search_is_over(q->search); run++) {
        remat_proposal_set_run(q->search, &of, run);
        of.index = q->added_count;
        q->added_count += last - first + 1;
        push_run(q, of, first, last + 1);
    }
}

static bool is_listed(const struct remat_queue *q, uint64_t decisions, enum remat_queue_order order)
{
    return decisions * q->search->graph->node_count <= nodes_listed[order];
}

/* Where layers differ, times are sure to rise only along BLOCK. */
static bool is_run(const struct remat_queue *q, const struct remat_proposals *policies,
                   const struct remat_policy *policy)
{
    enum remat_queue_order order =
        policy->family == REMAT_POLICIES_BLOCK ? q->order : REMAT_SMALLEST_FIRST;
    return policy->family && !is_listed(q, policies->count, order);
}

void remat_queue_add_policies(struct remat_queue *q, const struct remat_proposals *policies)
{
    const struct remat_proposal *items = policies->items;
    for (size_t i = 0, end; i < policies->count; i = end) {
        const struct remat_policy *first = items[i].policy;
        for (end = i + 1; is_run(q, policies, first) && end < policies->count &&
                          items[end].policy == items[end - 1].policy + 1 &&
                          items[end].policy->family == first->family &&
                          items[end].policy->inputs == first->inputs;)
            end++;
        add_entry(q, items[i], items[i].step, items[end - 1].step);
    }
}

void remat_queue_add_planned(struct remat_queue *q)
{
    assert(q->search->planner);
    const struct remat_planner *planner = q->search->planner;
    uint64_t decisions = 0;
    for (uint32_t i = 0; i < planner->near.count; i++)
        add_entry(q, planned(REMAT_NO_PATH, i), i, i);
    for (remat_path_id path = {0}; path.i < planner->tried_count; path.i++)
        decisions += remat_path_step_count(&planner->paths[path.i]);
    for (remat_path_id path = {0}; path.i < planner->tried_count; path.i++) {
        uint32_t length = remat_path_length(&planner->paths[path.i]);
        uint32_t end = remat_path_step_count(&planner->paths[path.i]);
        for (uint32_t first = 0, last; first < end; first = last + 1) {
            last = is_listed(q, decisions, q->order) ? first
                   : first < length                  ? length - 1
                                                     : end - 1;
            add_entry(q, planned(path, first), first, last);
        }
    }
}

/* --- popping --- */

/* The first step after `now`, the corner at the latest, that needs at most `bytes`. Layers are
 * alike, so bytes fall nearly evenly. */
static struct remat_proposal find_step(struct remat_search *s, struct remat_proposal now,
                                       struct remat_proposal corner, uint64_t bytes)
{
    for (uint32_t probes = 1; corner.step > now.step + 1; probes++) {
        uint32_t steps = corner.step - now.step, ahead = steps / 2;
        if (probes % 3)
            ahead = (uint32_t)((double)steps * (double)(now.least.live_bytes - bytes) /
                               (double)(now.least.live_bytes - corner.least.live_bytes));
        ahead = ahead < 1 ? 1 : ahead >= steps ? steps - 1 : ahead;
        struct remat_proposal middle = at_step(s, now, now.step + ahead);
        *(middle.least.live_bytes > bytes ? &now : &corner) = middle;
    }
    return corner;
}

static uint32_t next_corner(const struct remat_queue *q, const struct remat_queue_entry *e)
{
    uint32_t next = e->now.step + 1;
    if (e->now.policy)
        return e->last;
    const struct remat_path *path = &q->search->planner->paths[e->now.path.i];
    return next < remat_path_length(path) ? remat_path_corner(path, next) : e->last;
}

/* Advances to the next step that needs at most `bytes`. False: there is none. */
static bool advance(const struct remat_queue *q, struct remat_queue_entry *e, uint64_t bytes)
{
    struct remat_search *s = q->search;
    for (;;) {
        bool fits = e->now.least.live_bytes <= bytes; /* but for its arena, or it is known */
        struct remat_proposal end = e->corner;
        if (end.step > e->now.step && (fits || end.least.live_bytes > bytes))
            end = remat_queue_smallest(s, end, e->now.step + fits);
        if (end.step > e->now.step && end.least.live_bytes <= bytes) {
            e->now = fits ? at_step(s, e->now, e->now.step + 1) : find_step(s, e->now, end, bytes);
            return true;
        }
        if (e->corner.step > e->now.step) {
            e->now = e->corner;
            if (e->now.least.live_bytes <= bytes)
                return true;
        }
        if (e->now.step == e->last)
            return false;
        e->corner = at_step(s, e->now, next_corner(q, e));
    }
}

/* Raises the key of an entry to the time of computation. Where it is that already, pushes an entry
 * for each depth instead. */
static void push_each_depth(struct remat_queue *q, struct remat_queue_entry e)
{
    struct remat_proposal runs[REMAT_DEPTHS_MAX];
    uint64_t limit_ns = q->last_key ? q->last_key : UINT64_MAX;
    remat_keep_most(&e.now.least.step_ns, remat_proposal_computation(q->search, &e.now).step_ns);
    if (e.now.least.step_ns > e.key) {
        push(q, e);
        return;
    }
    uint32_t count = remat_proposal_price_depths(q->search, &e.now, limit_ns, runs);
    for (uint32_t run = 0; run < count; run++) {
        e.now = e.corner = runs[run];
        push(q, e);
    }
}

/* Pushes the rest of an entry whose step was popped or is too large: by bytes, the runs on either
 * side of that step. */
static void push_rest(struct remat_queue *q, struct remat_queue_entry e, uint64_t bytes)
{
    e.popped = false;
    if (q->order == REMAT_FASTEST_FIRST) {
        if (advance(q, &e, bytes))
            push(q, e);
    } else if (e.now.least.live_bytes <= bytes) {
        push_run(q, e.now, e.first, e.now.step);
        push_run(q, e.now, e.now.step + 1, e.last + 1);
    }
}

bool remat_queue_pop(struct remat_queue *q, uint64_t limit_bytes, struct remat_proposal *out)
{
    while (q->heap.count > 0 && (!q->last_key || q->heap.items[0].key <= q->last_key) &&
           !remat_search_is_over(q->search)) {
        struct remat_queue_entry e = remat_queue_heap_take(&q->heap, 0), next = e;
        if (e.popped || e.now.least.live_bytes > limit_bytes) {
            push_rest(q, e, limit_bytes);
        } else if (e.now.any_depth) {
            push_each_depth(q, e);
        } else if (!e.now.cost.step_ns) {
            remat_proposal_price(q->search, &next.now);
            push(q, next);
        } else {
            next.popped = true;
            push(q, next);
            if (remat_proposals_have(&q->popped, &e.now))
                continue;
            REMAT_PUSH(q->search->arena, &q->popped, e.now);
            *out = e.now;
            return true;
        }
    }
    return false;
}

void remat_queue_evaluate(struct remat_queue *q, struct remat_proposal *proposal,
                          uint64_t limit_bytes)
{
    assert(q->popped.count > 0);
    remat_proposal_evaluate(q->search, proposal, q->curve ? 0 : limit_bytes);
    q->popped.items[q->popped.count - 1].cost = proposal->cost;
}

/* Faster, or as fast and smaller. */
static bool is_better(const struct remat_evaluation *a, const struct remat_evaluation *b)
{
    return a->step_ns != b->step_ns ? a->step_ns < b->step_ns
                                    : a->live_peak_bytes < b->live_peak_bytes;
}

/* True if nothing fits by proof, `bytes` are nearly as few as the proof allows, and a complete
 * search would take long. */
static bool is_near_floor(const struct remat_queue *q, uint64_t bytes)
{
    const struct remat_search *s = q->search;
    return s->limit_bytes < s->floor_bytes && bytes <= s->floor_bytes + s->floor_bytes / 32 &&
           (uint64_t)q->popped.count * s->graph->node_count > REFUSAL_NODES;
}

/* Up to which key an entry may be better than a plan that takes `ns`. Where a link or computation
 * is always busy, many decisions take the same time; of those the first one, which has the lowest
 * bound of bytes, is as good as any. */
static uint64_t last_key(const struct remat_queue *q, uint64_t ns)
{
    return overlaps(q) && ns > 1 ? ns - 1 : ns;
}

bool remat_queue_best(struct remat_queue *q, uint64_t limit_bytes, bool found,
                      struct remat_proposal *best)
{
    bool by_time = q->order == REMAT_FASTEST_FIRST;
    struct remat_proposal proposal;
    q->last_key = by_time && found ? last_key(q, best->cost.step_ns) : 0;
    while (limit_bytes >= q->search->floor_bytes && !is_near_floor(q, limit_bytes) &&
           remat_queue_pop(q, limit_bytes, &proposal)) {
        remat_queue_evaluate(q, &proposal, limit_bytes);
        if (proposal.cost.arena_bytes > limit_bytes ||
            (by_time && found && !is_better(&proposal.cost, &best->cost)))
            continue;
        *best = proposal;
        found = true;
        if (by_time) {
            q->last_key = last_key(q, proposal.cost.step_ns);
            remat_keep_least(&q->search->state.best_ns, proposal.cost.step_ns);
        } else {
            limit_bytes = proposal.cost.arena_bytes - 1;
        }
    }
    remat_proposals_show(q->search, q->name, q->added_count, q->popped.items, q->popped.count);
    return found;
}
