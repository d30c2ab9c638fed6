/* SPDX-License-Identifier: Apache-2.0 */
/* The least peak of any schedule is the largest, over the nodes, of what it takes to run that node
 * starting from nothing. Backwards from a set of values that are live together: the one produced
 * last, u, was produced while the others and the inputs of u were live. So the least peak for a set
 * is a bottleneck path in the graph of such sets, from {inputs of v} to the empty set; best-first
 * search finds it, and stopped early its frontier is still a proven bound. docs/problems.md.
 *
 * A value whose inputs are all in the set is undone at once: that costs nothing and leaves a
 * subset, which never needs more. */
#include "floor.h"

enum { STATES_PER_NODE = 4000, STEPS_PER_STATE = 1 << 16, LASTING_WORK_MAX = 400000000 };

struct live_set {
    uint32_t count;
    uint64_t bytes, bottleneck, rank; /* rank: among equal bottlenecks, lower first */
    uint32_t *items;                  /* ascending */
};

struct walk {
    const struct remat_problem *problem;
    struct remat_deadline *deadline;
    uint64_t steps_max; /* of the state at hand: items looked at */
    uint64_t steps;
    struct remat_arena *arena; /* of one node's search */
    struct {
        struct live_set *items;
        size_t count, capacity;
    } heap;
    struct { /* sets looked at, open addressing; those without items are empty slots */
        struct live_set *items;
        size_t count, capacity;
    } seen;
    uint32_t *scratch;
};

static bool comes_before(const struct live_set *a, const struct live_set *b)
{
    return a->bottleneck != b->bottleneck ? a->bottleneck < b->bottleneck : a->rank < b->rank;
}

static void heap_push(struct walk *w, struct live_set set)
{
    REMAT_PUSH(w->arena, &w->heap, set);
    size_t at = w->heap.count - 1;
    for (; at > 0 && comes_before(&set, &w->heap.items[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap.items[at] = w->heap.items[(at - 1) / 2];
    w->heap.items[at] = set;
}

static struct live_set heap_pop(struct walk *w)
{
    struct live_set top = w->heap.items[0], last = w->heap.items[--w->heap.count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= w->heap.count)
            break;
        if (child + 1 < w->heap.count &&
            comes_before(&w->heap.items[child + 1], &w->heap.items[child]))
            child++;
        if (!comes_before(&w->heap.items[child], &last))
            break;
        w->heap.items[at] = w->heap.items[child];
        at = child;
    }
    if (w->heap.count)
        w->heap.items[at] = last;
    return top;
}

static struct live_set *seen_slot(struct walk *w, const struct live_set *set)
{
    size_t bytes = set->count * sizeof *set->items;
    size_t at = remat_hash(set->items, bytes, set->count) & (w->seen.capacity - 1);
    for (;; at = (at + 1) & (w->seen.capacity - 1)) {
        struct live_set *slot = &w->seen.items[at];
        if (!slot->items ||
            (slot->count == set->count && memcmp(slot->items, set->items, bytes) == 0))
            return slot;
    }
}

/* *fresh: the set was not seen before. */
static void see(struct walk *w, const struct live_set *set, bool *fresh)
{
    if (w->seen.count * 2 >= w->seen.capacity) {
        size_t capacity = w->seen.capacity;
        struct live_set *old = w->seen.items;
        w->seen.capacity = capacity ? capacity * 2 : 256;
        REMAT_NEW(w->arena, w->seen.items, w->seen.capacity);
        for (size_t i = 0; i < capacity; i++)
            if (old[i].items)
                *seen_slot(w, &old[i]) = old[i];
    }
    struct live_set *slot = seen_slot(w, set);
    *fresh = !slot->items;
    if (*fresh) {
        *slot = *set;
        w->seen.count++;
    }
}

/* --- sets --- */

static bool contains(const uint32_t *items, uint32_t count, uint32_t v)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (items[middle] < v)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && items[low] == v;
}

/* `set` without its item `drop`, with that way's inputs, into scratch; returns the count. */
static uint32_t replace(struct walk *w, const struct live_set *set, uint32_t drop, uint32_t way)
{
    const struct remat_problem *p = w->problem;
    uint32_t e = p->input_begin[way], end = p->input_begin[way + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count || e < end;) {
        if (i == drop) {
            i++;
        } else if (e == end || (i < set->count && set->items[i] < p->inputs[e])) {
            w->scratch[count++] = set->items[i++];
        } else {
            if (i < set->count && set->items[i] == p->inputs[e])
                i++;
            w->scratch[count++] = p->inputs[e++];
        }
    }
    return count;
}

/* Undoes, in scratch, every value whose inputs are there too; users first, so one sweep suffices.
 */
static uint32_t undo_what_is_free(struct walk *w, uint32_t count)
{
    const struct remat_problem *p = w->problem;
    uint32_t *items = w->scratch;
    for (uint32_t i = count; i-- > 0;) {
        bool all = p->workspace[items[i]] == p->static_bytes; /* a run needs no more than the set */
        uint32_t e = p->input_begin[items[i]];
        for (; all && e < p->input_begin[items[i] + 1]; e++)
            all = contains(items, i, p->inputs[e]);
        w->steps += 1 + e - p->input_begin[items[i]];
        if (all) {
            memmove(items + i, items + i + 1, (count - i - 1) * sizeof *items);
            count--;
        }
    }
    return count;
}

/* Queues the set in scratch, reached over `bottleneck`. */
static void queue_set(struct walk *w, uint32_t count, uint64_t bottleneck)
{
    struct live_set set = {.count = undo_what_is_free(w, count), .bottleneck = bottleneck};
    REMAT_NEW(w->arena, set.items, set.count);
    for (uint32_t i = 0; i < set.count; i++) {
        set.items[i] = w->scratch[i];
        set.bytes += w->problem->bytes[set.items[i]];
    }
    set.rank = set.count ? (uint64_t)set.items[set.count - 1] << 32 | (set.bytes >> 32) : 0;
    {
        heap_push(w, set);
        return;
    }
}

/* Incomplete when there are too many steps, or the deadline comes. */
static void expand(struct walk *w, const struct live_set *set, bool *complete)
{
    const struct remat_problem *p = w->problem;
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t v = set->items[i];
        for (uint32_t k = p->way_begin[v]; k < p->way_begin[v + 1]; k++) {
            uint32_t way = p->ways[k];
            uint64_t bytes = set->bytes + p->workspace[way];
            for (uint32_t e = p->input_begin[way]; e < p->input_begin[way + 1]; e++)
                if (!contains(set->items, set->count, p->inputs[e]))
                    bytes += p->bytes[p->inputs[e]];
            uint64_t bottleneck = bytes > set->bottleneck ? bytes : set->bottleneck;
            uint64_t before = w->steps;
            queue_set(w, replace(w, set, i, way), bottleneck);
            w->steps += set->count + remat_problem_input_count(p, way);
            *complete =
                !remat_deadline_count(w->deadline, w->steps - before) && w->steps < w->steps_max;
            if (!*complete)
                return;
        }
    }
}

/* What running v takes at least; nothing above `enough` is distinguished, since another node needs
 * that much already. */
static void walk_back(struct walk *w, uint32_t v, uint64_t enough, uint64_t *effort,
                      uint64_t *bytes, bool *exact)
{
    bool complete = true;
    const struct remat_problem *p = w->problem;
    *exact = false;
    *bytes = remat_problem_working_set(p, v);
    for (uint32_t k = p->way_begin[v]; k < p->way_begin[v + 1]; k++) {
        uint32_t way = p->ways[k], count = remat_problem_input_count(p, way);
        uint64_t working_set = remat_problem_working_set_of_way(p, way);
        for (uint32_t e = 0; e < count; e++)
            w->scratch[e] = p->inputs[p->input_begin[way] + e];
        queue_set(w, count, working_set > enough ? working_set : enough);
        remat_deadline_count(w->deadline, 1 + count);
    }
    for (int states = 0; w->heap.count; states++) {
        struct live_set set = heap_pop(w);
        bool fresh;
        *bytes = set.bottleneck;
        *exact = set.count == 0;
        if (*exact || states >= STATES_PER_NODE || *effort == 0)
            break;
        see(w, &set, &fresh);
        if (!fresh)
            continue;
        w->steps = 0;
        w->steps_max = *effort * STEPS_PER_STATE;
        expand(w, &set, &complete);
        if (!complete) { /* of all that is queued, or would be, this set is the first */
            *effort -= w->steps < w->steps_max ? 0 : *effort;
            break;
        }
        *effort -= 1 + w->steps / STEPS_PER_STATE;
    }
}

static uint32_t *order_by_working_set(struct remat_arena *arena, const struct remat_problem *p)
{
    uint32_t n = p->node_count, *from, *to;
    uint64_t *bytes;
    REMAT_NEW(arena, from, n);
    REMAT_NEW(arena, to, n);
    REMAT_NEW(arena, bytes, n);
    for (uint32_t v = 0; v < n; v++) {
        from[v] = v;
        bytes[v] = remat_problem_working_set(p, v);
    }
    for (uint32_t width = 1; width < n; width *= 2) { /* merge sort, largest first, stable */
        for (uint32_t low = 0; low < n; low += 2 * width) {
            uint32_t middle = low + width < n ? low + width : n;
            uint32_t high = middle + width < n ? middle + width : n;
            for (uint32_t i = low, j = middle, k = low; k < high; k++) {
                bool right = i == middle || (j < high && bytes[from[j]] > bytes[from[i]]);
                to[k] = right ? from[j++] : from[i++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
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
    for (uint32_t v = (p->node_count - 1) % stride;
         v < p->node_count && !remat_deadline_count(deadline, steps); v += stride) {
        uint64_t bytes = remat_problem_working_set(p, v);
        memset(before, 0, p->node_count * sizeof *before);
        before[v] = true;
        for (uint32_t u = v + 1; u-- > 0;) {
            if (!before[u])
                continue;
            bytes += u == v || !p->fusible[u] ? p->lasting[u] : 0;
            for (uint32_t e = p->input_begin[u]; e < p->input_begin[u + 1]; e++)
                before[p->inputs[e]] = true;
        }
        if (bytes > out->bytes) {
            out->bytes = bytes;
            out->node = v;
        }
    }
}

void remat_floor_find(struct remat_arena *arena, const struct remat_problem *p, uint64_t effort,
                      struct remat_deadline *deadline, struct remat_floor *out)
{
    struct remat_context *ctx = arena->ctx;
    struct walk w = {.problem = p, .deadline = deadline};
    uint32_t *order;
    struct remat_arena *own = remat_scratch_open(ctx);
    w.arena = remat_scratch_open(ctx);
    *out = (struct remat_floor){.exact = true};
    order = order_by_working_set(own, p);
    REMAT_NEW(own, w.scratch, p->node_count);
    out->node = order[0];
    out->bytes = remat_problem_working_set(p, order[0]);
    for (uint32_t i = 0; i < p->node_count && !(deadline && deadline->hit); i++) {
        uint64_t bytes = 0;
        bool exact = false;
        w = (struct walk){
            .problem = p, .deadline = deadline, .arena = w.arena, .scratch = w.scratch};
        walk_back(&w, order[i], out->bytes, &effort, &bytes, &exact);
        out->exact = out->exact && exact;
        if (bytes > out->bytes) {
            out->bytes = bytes;
            out->node = order[i];
        }
        remat_arena_release(w.arena);
    }
    if (p->has_lasting)
        add_lasting(own, p, deadline, out);
    /* Nodes are looked at one by one, as if each could be run from nothing at any time. */
    out->exact = out->exact && !p->has_lasting && !p->has_once && !(deadline && deadline->hit);
    remat_scratch_close(w.arena);
    remat_scratch_close(own);
}
