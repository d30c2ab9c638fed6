/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

enum {
    PASSED_MAX = 15,        /* of a kind, one after the other */
    NODES_LISTED = 2000000, /* in all graphs together whose least costs are found at once */
};

static uint64_t key_of(const struct remat_queue *q, const struct remat_proposal *proposal)
{
    return q->order == REMAT_FASTEST_FIRST ? proposal->least.step_ns : proposal->least.live_bytes;
}

/* --- paths --- */

struct remat_proposal remat_queue_step(uint32_t path, uint32_t step)
{
    return (struct remat_proposal){.name = "per-op", .path = path, .step = step};
}

/* How many paths are of use. The group that is recomputed at once grows with its layers, what is
 * saved between groups gets less. Groups that need more than those before are the last ones: on the
 * way to them there may be something smaller yet. */
static uint32_t find_path_count(struct remat_queue *q)
{
    struct remat_search *s = q->search;
    uint32_t path = q->search->planner->single_count;
    uint32_t count = q->search->planner->path_count;
    uint64_t least_bytes = UINT64_MAX, bytes = 0;
    while (s->path_count == 0 && path < count && bytes < least_bytes && !remat_search_is_over(s)) {
        least_bytes = bytes ? bytes : least_bytes;
        uint32_t last = remat_path_length(&q->search->planner->paths[path]) - 1;
        bytes = remat_proposal_live_peak(s, remat_queue_step(path, last));
        path++;
    }
    if (s->path_count == 0)
        s->path_count = path;
    return s->path_count;
}

/* --- entries --- */

void remat_queue_add(struct remat_queue *q, const struct remat_proposal *proposal)
{
    struct remat_queue_entry entry = {*proposal, proposal->step, key_of(q, proposal)};
    entry.last.index = q->added_count++;
    remat_queue_heap_push(q->search->arena, &q->heap, entry);
}

/* At a corner the last decision may be a launch faster than those before it. */
static uint64_t range_key(const struct remat_queue *q, uint32_t first,
                          const struct remat_proposal *last, uint64_t before_ns)
{
    uint64_t key = key_of(q, last);
    return q->order == REMAT_FASTEST_FIRST && first < last->step && before_ns < key ? before_ns
                                                                                    : key;
}

static void push_range(struct remat_queue *q, uint32_t first, const struct remat_proposal *last,
                       uint64_t before_ns)
{
    remat_queue_heap_push(
        q->search->arena, &q->heap,
        (struct remat_queue_entry){*last, first, range_key(q, first, last, before_ns)});
}

static void halve(struct remat_queue *q, const struct remat_queue_entry *entry)
{
    uint32_t middle = entry->first + (entry->last.step - entry->first) / 2;
    struct remat_proposal left = remat_queue_step(entry->last.path, middle);
    left.index = entry->last.index;
    remat_proposal_find_least(q->search, &left);
    push_range(q, entry->first, &left, entry->key);
    push_range(q, middle + 1, &entry->last, left.least.step_ns);
}

/* Ranges of at most `stride` decisions, none with a corner before its end. */
static void add_path(struct remat_queue *q, uint32_t path, uint32_t stride)
{
    uint32_t plain = remat_path_length(&q->search->planner->paths[path]);
    uint32_t count = plain + remat_path_nested_count(&q->search->planner->paths[path]);
    uint64_t before_ns = 0;
    for (uint32_t first = 0, end; first < count && !remat_search_is_over(q->search); first = end) {
        end =
            first < plain ? remat_path_corner(&q->search->planner->paths[path], first) + 1 : count;
        end = end - first > stride ? first + stride : end;
        struct remat_proposal last = remat_queue_step(path, end - 1);
        last.index = q->added_count;
        remat_proposal_find_least(q->search, &last);
        push_range(q, first, &last, before_ns);
        before_ns = last.least.step_ns;
        q->added_count += end - first;
    }
}

void remat_queue_add_planned(struct remat_queue *q)
{
    uint64_t decisions = 0, stride;
    for (uint32_t i = 0; i < q->search->planner->near.count; i++) {
        struct remat_proposal near = remat_queue_step(REMAT_NONE, i);
        remat_proposal_find_least(q->search, &near);
        remat_queue_add(q, &near);
    }
    uint32_t path_count = find_path_count(q);
    for (uint32_t path = 0; path < path_count; path++)
        decisions += remat_path_length(&q->search->planner->paths[path]) +
                     remat_path_nested_count(&q->search->planner->paths[path]);
    stride = decisions * q->search->graph->node_count / NODES_LISTED + 1;
    for (uint32_t path = 0; path < path_count; path++)
        add_path(q, path, (uint32_t)stride);
}

/* --- taking --- */

static uint32_t kind_of(const struct remat_proposal *proposal)
{
    const struct remat_policy *policy = proposal->policy;
    return policy ? 2 * (2 * (uint32_t)policy->granularity + (policy->group > 1)) + 1
                  : 2 * proposal->path;
}

static struct remat_queue_kind *find_kind(const struct remat_queue *q,
                                          const struct remat_proposal *proposal)
{
    for (size_t i = 0; i < q->kinds.count; i++)
        if (q->kinds.items[i].id == kind_of(proposal))
            return &q->kinds.items[i];
    return NULL;
}

void remat_queue_learn(struct remat_queue *q, const struct remat_proposal *proposal)
{
    struct remat_queue_kind kind = {.id = kind_of(proposal),
                                    .beyond_bytes = proposal->cost.live_peak_bytes -
                                                    proposal->least.live_bytes};
    struct remat_queue_kind *known = find_kind(q, proposal);
    if (known)
        *known = kind;
    else
        REMAT_PUSH(q->search->arena, &q->kinds, kind);
}

static bool needs_more(struct remat_queue *q, const struct remat_proposal *proposal,
                       uint64_t limit_bytes)
{
    uint64_t bytes = proposal->least.live_bytes;
    struct remat_queue_kind *kind = find_kind(q, proposal);
    if (bytes > limit_bytes)
        return true;
    return kind && bytes + kind->beyond_bytes > limit_bytes && kind->passed_count++ < PASSED_MAX;
}

static bool has_twin(const struct remat_queue *q, const struct remat_proposal *proposal)
{
    for (size_t i = q->taken.count; i-- > 0;)
        if (q->taken.items[i].least.effect == proposal->least.effect &&
            q->taken.items[i].least.step_ns == proposal->least.step_ns)
            return true;
    return false;
}

bool remat_queue_take(struct remat_queue *q, uint64_t limit_bytes, struct remat_proposal *out)
{
    while (q->heap.count > 0 && (!q->last_key || q->heap.items[0].key <= q->last_key) &&
           !remat_search_is_over(q->search)) {
        const struct remat_queue_entry entry = remat_queue_heap_take(&q->heap, 0);
        if (needs_more(q, &entry.last, limit_bytes)) {
            if (entry.last.least.live_bytes < q->covered_bytes)
                q->passed_count += entry.last.step - entry.first + 1;
            continue;
        }
        if (entry.first < entry.last.step) {
            halve(q, &entry);
        } else if (!has_twin(q, &entry.last)) {
            REMAT_PUSH(q->search->arena, &q->taken, entry.last);
            *out = entry.last;
            return true;
        }
    }
    return false;
}

void remat_queue_evaluate(struct remat_queue *q, struct remat_proposal *proposal,
                          uint64_t limit_bytes)
{
    remat_proposal_evaluate(q->search, proposal, limit_bytes);
    q->taken.items[q->taken.count - 1].cost = proposal->cost;
}

void remat_queue_show(const struct remat_queue *q)
{
    remat_proposals_show(q->search, q->name, q->added_count, q->taken.items, q->taken.count);
}

/* Faster, or as fast and smaller. */
static bool is_better(const struct remat_evaluation *a, const struct remat_evaluation *b)
{
    return a->step_ns != b->step_ns ? a->step_ns < b->step_ns
                                    : a->live_peak_bytes < b->live_peak_bytes;
}

void remat_queue_fastest(struct remat_queue *q, uint64_t limit_bytes, struct remat_proposal *best,
                         bool *found)
{
    struct remat_proposal proposal;
    for (;;) {
        q->last_key = *found ? best->cost.step_ns : 0;
        if (!remat_queue_take(q, limit_bytes, &proposal))
            break;
        remat_queue_evaluate(q, &proposal, limit_bytes);
        if (proposal.cost.arena_bytes > limit_bytes ||
            (*found && !is_better(&proposal.cost, &best->cost)))
            continue;
        *best = proposal;
        *found = true;
        q->search->state.best_ns = proposal.cost.step_ns;
    }
    remat_queue_show(q);
}

bool remat_queue_smallest(struct remat_queue *q, struct remat_proposal *out)
{
    bool found = false;
    struct remat_proposal proposal;
    uint64_t limit_bytes = UINT64_MAX - 1;
    while (remat_queue_take(q, limit_bytes, &proposal)) {
        remat_queue_evaluate(q, &proposal, limit_bytes);
        if (proposal.cost.arena_bytes <= limit_bytes) {
            *out = proposal;
            found = true;
            limit_bytes = proposal.cost.arena_bytes - 1;
        }
    }
    remat_queue_show(q);
    return found;
}
