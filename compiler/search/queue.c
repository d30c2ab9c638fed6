/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

enum { NODES_LISTED = 2000000 }; /* in all graphs together that are entries of their own */

static void push(struct remat_queue *q, struct remat_queue_entry entry)
{
    const struct remat_proposal *now = &entry.now;
    uint64_t ns = now->cost.step_ns ? now->cost.step_ns : now->least.step_ns;
    uint64_t key = q->order == REMAT_SMALLEST_FIRST ? now->least.live_bytes : ns;
    entry.key = key > entry.key ? key : entry.key;
    remat_queue_heap_push(q->search->arena, &q->heap, entry);
}

/* --- adding --- */

struct remat_proposal remat_queue_step(uint32_t path, uint32_t step)
{
    return (struct remat_proposal){.name = "per-op", .path = path, .step = step};
}

/* How many paths are of use: the more layers a group has, the more is recomputed at once, and the
 * less is saved between groups. Groups that need more than those before are the last ones: on the
 * way to them there may be something smaller yet. */
static uint32_t find_path_count(struct remat_queue *q)
{
    struct remat_search *s = q->search;
    uint32_t path = s->planner->single_count, count = s->planner->path_count;
    uint64_t least_bytes = UINT64_MAX, bytes = 0;
    if (s->path_count > 0)
        return s->path_count;
    while (path < count && bytes < least_bytes && !remat_search_is_over(s)) {
        least_bytes = bytes ? bytes : least_bytes;
        struct remat_proposal last =
            remat_queue_step(path, remat_path_length(&s->planner->paths[path]) - 1);
        remat_proposal_evaluate(s, &last, 0);
        bytes = last.cost.live_peak_bytes;
        path++;
    }
    s->path_count = path;
    return path;
}

static uint32_t step_count(const struct remat_queue *q, uint32_t path)
{
    const struct remat_path *p = &q->search->planner->paths[path];
    return remat_path_length(p) + remat_path_twice_count(p);
}

/* Another step of what the proposal is one of. */
static struct remat_proposal look_at(const struct remat_queue *q, struct remat_proposal proposal,
                                     uint32_t step)
{
    if (proposal.policy) {
        proposal.policy += (int64_t)step - proposal.step;
        proposal.name = proposal.policy->name;
    }
    proposal.step = step;
    proposal.cost = (struct remat_evaluation){0};
    remat_proposal_find_least(q->search, &proposal);
    return proposal;
}

/* The steps from `first` to `last`, in the order of the queue, with transfers beside computation
 * and in line. */
static void add_entry(struct remat_queue *q, struct remat_proposal of, uint32_t first,
                      uint32_t last)
{
    bool down = q->order == REMAT_SMALLEST_FIRST;
    int ways = q->search->evaluator->transfers ? 2 : 1;
    for (int way = 0; way < ways && !remat_search_is_over(q->search); way++) {
        of.in_line = way == 1;
        of.index = q->added_count;
        q->added_count += last - first + 1;
        struct remat_queue_entry entry = {.now = look_at(q, of, down ? last : first),
                                          .last = down ? first : last};
        entry.corner = entry.now;
        push(q, entry);
    }
}

static bool is_listed(const struct remat_queue *q, uint64_t decisions)
{
    return decisions * q->search->graph->node_count <= NODES_LISTED;
}

void remat_queue_add_policies(struct remat_queue *q, const struct remat_proposals *policies)
{
    const struct remat_proposal *items = policies->items;
    for (size_t i = 0, end; i < policies->count; i = end) {
        uint32_t family = items[i].policy->family;
        for (end = i + 1; family && end < policies->count &&
                          items[end].policy == items[end - 1].policy + 1 &&
                          items[end].policy->family == family && !is_listed(q, policies->count);)
            end++;
        add_entry(q, items[i], items[i].step, items[end - 1].step);
    }
}

void remat_queue_add_planned(struct remat_queue *q)
{
    const struct remat_planner *planner = q->search->planner;
    uint64_t decisions = 0;
    for (uint32_t i = 0; i < planner->near.count; i++)
        add_entry(q, remat_queue_step(REMAT_NONE, i), i, i);
    uint32_t path_count = find_path_count(q);
    for (uint32_t path = 0; path < path_count; path++)
        decisions += step_count(q, path);
    for (uint32_t path = 0; path < path_count; path++)
        for (uint32_t first = 0, last; first < step_count(q, path); first = last + 1) {
            last = is_listed(q, decisions) ? first : step_count(q, path) - 1;
            add_entry(q, remat_queue_step(path, first), first, last);
        }
}

/* --- taking --- */

/* The first step between `now` and the corner, at the latest the corner, that needs at most
 * `bytes`. Layers are alike, so bytes fall nearly evenly. */
static struct remat_proposal find_step(const struct remat_queue *q, struct remat_proposal now,
                                       struct remat_proposal corner, uint64_t bytes)
{
    for (uint32_t probes = 1; corner.step > now.step + 1; probes++) {
        uint32_t steps = corner.step - now.step, ahead = steps / 2;
        if (probes % 3)
            ahead = (uint32_t)((double)steps * (double)(now.least.live_bytes - bytes) /
                               (double)(now.least.live_bytes - corner.least.live_bytes));
        ahead = ahead < 1 ? 1 : ahead >= steps ? steps - 1 : ahead;
        struct remat_proposal middle = look_at(q, now, now.step + ahead);
        *(middle.least.live_bytes > bytes ? &now : &corner) = middle;
    }
    return corner;
}

static uint32_t next_corner(const struct remat_queue *q, const struct remat_queue_entry *e)
{
    uint32_t next = e->now.step + 1;
    if (e->now.policy)
        return e->last;
    const struct remat_path *path = &q->search->planner->paths[e->now.path];
    return next < remat_path_length(path) ? remat_path_corner(path, next) : e->last;
}

/* On to the next step that needs at most `bytes`. False: there is none. */
static bool advance(const struct remat_queue *q, struct remat_queue_entry *e, uint64_t bytes)
{
    if (e->now.step == e->last)
        return false;
    if (q->order == REMAT_SMALLEST_FIRST) {
        e->now = look_at(q, e->now, e->now.step - 1);
        return e->now.least.live_bytes <= bytes;
    }
    while (e->corner.step == e->now.step || e->corner.least.live_bytes > bytes) {
        if (e->corner.step == e->last)
            return false;
        e->now = e->corner;
        e->corner = look_at(q, e->now, next_corner(q, e));
    }
    e->now = e->now.least.live_bytes > bytes ? find_step(q, e->now, e->corner, bytes)
                                             : look_at(q, e->now, e->now.step + 1);
    return true;
}

/* Lists of ops, which are in no family, need no more than their bounds. */
static uint64_t *find_beyond(struct remat_queue *q, const struct remat_proposal *proposal)
{
    enum { FAMILIES = 4 };
    uint32_t paths = q->search->planner->path_count, path = proposal->path;
    if (!q->beyond_bytes)
        REMAT_NEW(q->search->arena, q->beyond_bytes, FAMILIES + paths + 1);
    if (!proposal->policy)
        return &q->beyond_bytes[FAMILIES + (remat_is_none(path) ? paths : path)];
    if (!proposal->policy->family)
        q->beyond_bytes[0] = 0;
    return &q->beyond_bytes[proposal->policy->family];
}

bool remat_queue_take(struct remat_queue *q, uint64_t limit_bytes, struct remat_proposal *out)
{
    while (q->heap.count > 0 && (!q->last_key || q->heap.items[0].key <= q->last_key) &&
           !remat_search_is_over(q->search)) {
        struct remat_queue_entry e = remat_queue_heap_take(&q->heap, 0), next = e;
        uint64_t beyond_bytes = q->rough ? *find_beyond(q, &e.now) : 0;
        uint64_t bytes = limit_bytes > beyond_bytes ? limit_bytes - beyond_bytes : 0;
        if (e.taken || e.now.least.live_bytes > bytes) {
            next.taken = false;
            if (advance(q, &next, bytes))
                push(q, next);
        } else if (!e.now.cost.step_ns) {
            remat_proposal_price(q->search, &next.now, q->curve ? 0 : limit_bytes);
            push(q, next);
        } else {
            next.taken = true;
            push(q, next);
            if (remat_proposals_have(&q->taken, &e.now))
                continue;
            REMAT_PUSH(q->search->arena, &q->taken, e.now);
            *out = e.now;
            return true;
        }
    }
    return false;
}

void remat_queue_evaluate(struct remat_queue *q, struct remat_proposal *proposal,
                          uint64_t limit_bytes)
{
    remat_proposal_evaluate(q->search, proposal, q->curve ? 0 : limit_bytes);
    q->taken.items[q->taken.count - 1].cost = proposal->cost;
    if (q->rough)
        *find_beyond(q, proposal) = proposal->cost.live_peak_bytes - proposal->least.live_bytes;
}

/* Faster, or as fast and smaller. */
static bool is_better(const struct remat_evaluation *a, const struct remat_evaluation *b)
{
    return a->step_ns != b->step_ns ? a->step_ns < b->step_ns
                                    : a->live_peak_bytes < b->live_peak_bytes;
}

bool remat_queue_best(struct remat_queue *q, uint64_t limit_bytes, bool found,
                      struct remat_proposal *best)
{
    bool by_time = q->order == REMAT_FASTEST_FIRST;
    struct remat_proposal proposal;
    q->last_key = by_time && found ? best->cost.step_ns : 0;
    while (remat_queue_take(q, limit_bytes, &proposal)) {
        remat_queue_evaluate(q, &proposal, limit_bytes);
        if (proposal.cost.arena_bytes > limit_bytes ||
            (by_time && found && !is_better(&proposal.cost, &best->cost)))
            continue;
        *best = proposal;
        found = true;
        if (by_time)
            q->last_key = q->search->state.best_ns = proposal.cost.step_ns;
        else
            limit_bytes = proposal.cost.arena_bytes - 1;
    }
    remat_proposals_show(q->search, q->name, q->added_count, q->taken.items, q->taken.count);
    return found;
}
