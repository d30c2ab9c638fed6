/* SPDX-License-Identifier: Apache-2.0 */
/* The least peak of any schedule is the largest, over the nodes, of what it takes to run that node
 * starting from nothing. Backwards from a set of values that are live together: the one produced
 * last, u, was produced while the others and the inputs of u were live. So the least peak for a set
 * is a bottleneck path in the graph of such sets, from {inputs of v} to the empty set; best-first
 * search finds it, and if stopped early the least one queued is still a proven bound.
 * docs/problems.md.
 *
 * A value whose inputs are all in the set is undone at once: that costs nothing and leaves a
 * subset, which never needs more. */
#include "solvers.h"

#include "heap.h"
#include "index.h"

#include <stdlib.h>

enum { STATES_PER_NODE = 4000, STEPS_PER_STATE = 1 << 16, LASTING_WORK_MAX = 400000000 };

struct live_set {
    uint32_t count;
    uint64_t bytes, bottleneck, rank; /* rank: among equal bottlenecks, lower first */
    remat_problem_node *items;        /* ascending */
};

static bool comes_before(const struct live_set *a, const struct live_set *b)
{
    return a->bottleneck != b->bottleneck ? a->bottleneck < b->bottleneck : a->rank < b->rank;
}
REMAT_HEAP(set_queue, struct live_set, comes_before);

struct set_search {
    const struct remat_problem *problem;
    struct remat_deadline *deadline;
    uint64_t effort;           /* states that are left */
    uint64_t steps, steps_max; /* of the state at hand: items looked at */
    struct remat_arena *arena; /* of one node's search */
    struct set_queue queue;
    struct REMAT_LIST(struct live_set) seen; /* sets looked at */
    struct remat_index index;                /* of them */
    remat_problem_node *scratch;
};

/* Whether the set was not seen before. */
static bool see(struct set_search *w, const struct live_set *set)
{
    size_t bytes = set->count * sizeof *set->items;
    uint64_t hash = remat_hash(set->items, bytes, set->count);
    uint32_t other;
    for (size_t at = 0; (other = remat_index_find(&w->index, hash, &at)) != UINT32_MAX;)
        if (w->seen.items[other].count == set->count &&
            memcmp(w->seen.items[other].items, set->items, bytes) == 0)
            return false;
    remat_index_add(w->arena, &w->index, hash, (uint32_t)w->seen.count);
    REMAT_PUSH(w->arena, &w->seen, *set);
    return true;
}

/* --- sets --- */

/* `set` without its item `drop`, with that mode's inputs, into scratch; returns the count. */
static uint32_t replace(struct set_search *w, const struct live_set *set, uint32_t drop,
                        remat_mode_id mode)
{
    const struct remat_problem *p = w->problem;
    uint32_t e = p->input_begin[mode.i], end = p->input_begin[mode.i + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count || e < end;) {
        if (i == drop) {
            i++;
        } else if (e == end || (i < set->count && set->items[i].i < p->inputs[e].i)) {
            w->scratch[count++] = set->items[i++];
        } else {
            if (i < set->count && set->items[i].i == p->inputs[e].i)
                i++;
            w->scratch[count++] = p->inputs[e++];
        }
    }
    return count;
}

/* Undoes, in scratch, every value whose inputs are there too; users first, so one sweep suffices.
 */
static uint32_t undo_what_is_free(struct set_search *w, uint32_t count)
{
    const struct remat_problem *p = w->problem;
    remat_problem_node *items = w->scratch;
    for (uint32_t i = count; i-- > 0;) {
        remat_problem_node v = items[i];
        bool all = p->workspace[v.i] == p->static_bytes; /* a run needs no more than the set */
        uint32_t e = p->input_begin[v.i];
        for (; all && e < p->input_begin[v.i + 1]; e++)
            all = remat_contains(items, i, p->inputs[e]);
        w->steps += 1 + e - p->input_begin[v.i];
        if (all) {
            memmove(items + i, items + i + 1, (count - i - 1) * sizeof *items);
            count--;
        }
    }
    return count;
}

/* Queues the set in scratch, reached over `bottleneck`. */
static void queue_set(struct set_search *w, uint32_t count, uint64_t bottleneck)
{
    struct live_set set = {.count = undo_what_is_free(w, count), .bottleneck = bottleneck};
    set.items = remat_copy(w->arena, w->scratch, set.count, sizeof *set.items);
    for (uint32_t i = 0; i < set.count; i++)
        set.bytes += w->problem->bytes[set.items[i].i];
    set.rank = set.count ? (uint64_t)set.items[set.count - 1].i << 32 | (set.bytes >> 32) : 0;
    set_queue_push(w->arena, &w->queue, set);
}

/* Incomplete, which is false, when there are too many steps, or the deadline comes. */
static bool expand(struct set_search *w, const struct live_set *set)
{
    const struct remat_problem *p = w->problem;
    for (uint32_t i = 0; i < set->count; i++) {
        remat_problem_node v = set->items[i];
        for (uint32_t k = p->mode_begin[v.i]; k < p->mode_begin[v.i + 1]; k++) {
            remat_mode_id mode = p->modes[k];
            uint64_t bytes = set->bytes + p->workspace[mode.i], before = w->steps;
            for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++)
                if (!remat_contains(set->items, set->count, p->inputs[e]))
                    bytes += p->bytes[p->inputs[e].i];
            queue_set(w, replace(w, set, i, mode),
                      bytes > set->bottleneck ? bytes : set->bottleneck);
            w->steps += set->count + remat_problem_input_count(p, mode);
            if (remat_deadline_count(w->deadline, w->steps - before) || w->steps >= w->steps_max)
                return false;
        }
    }
    return true;
}

/* Raises the floor to what running v takes at least. Nothing below is distinguished, since another
 * node needs that much already. */
static void walk_back(struct set_search *w, remat_problem_node v, struct remat_floor *floor)
{
    const struct remat_problem *p = w->problem;
    uint64_t bytes = 0;
    bool exact = false, complete = true;
    w->queue = (struct set_queue){0};
    w->index = (struct remat_index){0};
    w->seen.items = NULL;
    w->seen.count = w->seen.capacity = 0;
    for (uint32_t k = p->mode_begin[v.i]; k < p->mode_begin[v.i + 1]; k++) {
        remat_mode_id mode = p->modes[k];
        uint32_t count = remat_problem_input_count(p, mode);
        uint64_t working_set = remat_problem_working_set_of_mode(p, mode);
        memcpy(w->scratch, p->inputs + p->input_begin[mode.i], count * sizeof *w->scratch);
        queue_set(w, count, working_set > floor->bytes ? working_set : floor->bytes);
        remat_deadline_count(w->deadline, 1 + count);
    }
    for (int states = 0; w->queue.count && complete; states++) {
        struct live_set set = set_queue_take(&w->queue, 0);
        bytes = set.bottleneck;
        exact = set.count == 0;
        if (exact || states >= STATES_PER_NODE || w->effort == 0)
            break;
        if (!see(w, &set))
            continue;
        w->steps = 0;
        w->steps_max = w->effort * STEPS_PER_STATE;
        complete = expand(w, &set); /* else, of all that is queued or would be, it is the first */
        if (complete)
            w->effort -= 1 + w->steps / STEPS_PER_STATE;
        else if (w->steps >= w->steps_max)
            w->effort = 0;
    }
    floor->exact = floor->exact && exact;
    if (bytes > floor->bytes) {
        floor->bytes = bytes;
        floor->node = v;
    }
    remat_arena_release(w->arena);
}

struct node_floor {
    uint64_t bytes; /* working set */
    remat_problem_node node;
};

static int compare(const void *a, const void *b)
{
    const struct node_floor *l = a, *r = b;
    return l->bytes != r->bytes ? (l->bytes < r->bytes) - (l->bytes > r->bytes)
                                : (l->node.i > r->node.i) - (l->node.i < r->node.i);
}

/* The largest first. */
static struct node_floor *list_needs(struct remat_arena *arena, const struct remat_problem *p)
{
    struct node_floor *needs;
    REMAT_NEW(arena, needs, p->node_count);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        needs[v.i] = (struct node_floor){remat_problem_working_set(p, v), v};
    qsort(needs, p->node_count, sizeof *needs, compare);
    return needs;
}

/* When v runs, what lasts of its ancestors is there (unless one was only ever fused), whatever else
 * is. Quadratic, so only where something lasts, and of large problems at some nodes, the last one
 * among them. */
static void add_lasting(struct remat_arena *arena, const struct remat_problem *p,
                        struct remat_deadline *deadline, struct remat_floor *out)
{
    bool *before;
    uint64_t steps = (uint64_t)p->node_count + p->edge_count; /* at a node */
    uint32_t stride = (uint32_t)(1 + p->node_count * steps / LASTING_WORK_MAX);
    REMAT_NEW(arena, before, p->node_count);
    for (remat_problem_node v = {(p->node_count - 1) % stride};
         v.i < p->node_count && !remat_deadline_count(deadline, steps); v.i += stride) {
        uint64_t bytes = remat_problem_working_set(p, v);
        memset(before, 0, p->node_count * sizeof *before);
        before[v.i] = true;
        for (remat_problem_node u = {v.i + 1}; u.i-- > 0;) {
            if (!before[u.i])
                continue;
            bytes += u.i == v.i || !p->fusible[u.i] ? p->lasting[u.i] : 0;
            for (uint32_t e = p->input_begin[u.i]; e < p->input_begin[u.i + 1]; e++)
                before[p->inputs[e].i] = true;
        }
        if (bytes > out->bytes) {
            out->bytes = bytes;
            out->node = v;
        }
    }
}

struct remat_floor remat_floor_find(struct remat_arena *arena, const struct remat_problem *p,
                                    uint64_t effort, struct remat_deadline *deadline)
{
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    const struct node_floor *needs = list_needs(own, p);
    struct remat_floor out = {needs[0].bytes, needs[0].node, true};
    struct set_search w = {.problem = p,
                           .deadline = deadline,
                           .effort = effort,
                           .arena = remat_scratch_open(arena->ctx)};
    REMAT_NEW(own, w.scratch, p->node_count);
    for (uint32_t i = 0; i < p->node_count && !(deadline && deadline->hit); i++)
        walk_back(&w, needs[i].node, &out);
    if (p->has_lasting)
        add_lasting(own, p, deadline, &out);
    /* Nodes are looked at one by one, as if each could be run from nothing at any time. */
    out.exact = out.exact && !p->has_lasting && !p->has_once && !(deadline && deadline->hit);
    remat_scratch_close(w.arena);
    remat_scratch_close(own);
    return out;
}
