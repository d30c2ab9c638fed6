/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform-cost search over states (live values, nodes that have run). The first run of a node costs
 * nothing, since every schedule pays it; a repeat costs its time. Values are evicted only to make
 * room for a run, and then a minimal set of them: any schedule can be followed with more kept than
 * it keeps, skipping its repeats of what is still there. A node without users that fits beside
 * everything live is run at once, for the same reason. docs/problems.md. */
#include "exact.h"

#include "heap.h"

#include <assert.h>

enum { POLL = 256 };

struct state {
    uint64_t live, done, cost;
    uint32_t parent, way; /* the run that led here */
    bool closed;
};

struct entry {
    uint64_t cost;
    uint32_t depth, state; /* depth: nodes that have run */
};

/* By cost, deeper ones first among equals. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return a->depth != b->depth ? a->depth > b->depth : a->state > b->state;
}
REMAT_HEAP(queue, struct entry, comes_before);

struct exact {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    uint64_t budget, limit;
    uint64_t *inputs;                        /* sets, by way */
    uint64_t leaves;                         /* nodes without users */
    uint32_t by_size[REMAT_EXACT_NODES_MAX]; /* largest first */
    struct state *states;
    uint32_t state_count, states_max;
    uint32_t *slots, slot_count; /* hash of (live, done): state + 1 */
    struct queue queue;
    bool full;
};

static uint64_t bytes_of(const struct exact *x, uint64_t set)
{
    uint64_t bytes = 0;
    for (; set; set &= set - 1)
        bytes += x->problem->bytes[__builtin_ctzll(set)];
    return bytes;
}

static uint64_t lasting_of(const struct exact *x, uint64_t done)
{
    uint64_t bytes = 0;
    for (; x->problem->has_lasting && done; done &= done - 1)
        bytes += x->problem->lasting[__builtin_ctzll(done)];
    return bytes;
}

/* Into the queue, which does not grow. */
static void enqueue(struct exact *x, uint32_t state)
{
    const struct state *s = &x->states[state];
    x->full |= x->queue.count == x->queue.capacity;
    if (!x->full)
        queue_push(x->arena, &x->queue,
                   (struct entry){s->cost, (uint32_t)__builtin_popcountll(s->done), state});
}

/* --- states --- */

static void reach(struct exact *x, struct state next)
{
    uint64_t key[2] = {next.live, next.done};
    uint32_t at = (uint32_t)remat_hash(key, sizeof key, 0) & (x->slot_count - 1);
    if (next.cost >= x->limit)
        return;
    for (; x->slots[at]; at = (at + 1) & (x->slot_count - 1)) {
        struct state *s = &x->states[x->slots[at] - 1];
        if (s->live != next.live || s->done != next.done)
            continue;
        if (!s->closed && next.cost < s->cost) {
            *s = next;
            enqueue(x, x->slots[at] - 1);
        }
        return;
    }
    if (x->state_count == x->states_max) {
        x->full = true;
        return;
    }
    x->states[x->state_count] = next;
    x->slots[at] = ++x->state_count;
    enqueue(x, x->state_count - 1);
}

/* Evicts, from by_size[i] on, minimal sets that free `missing` bytes, and runs the node. */
static void evict_and_run(struct exact *x, struct state next, uint64_t pinned, uint32_t i,
                          uint64_t missing)
{
    if (x->full)
        return;
    if (missing == 0) {
        reach(x, next);
        return;
    }
    if (bytes_of(x, next.live & ~pinned) < missing)
        return;
    for (; i < x->problem->node_count; i++) {
        uint32_t v = x->by_size[i];
        uint64_t bit = UINT64_C(1) << v, bytes = x->problem->bytes[v];
        if (!(next.live & bit) || (pinned & bit))
            continue;
        struct state without = next;
        without.live &= ~bit;
        evict_and_run(x, without, pinned, i + 1, bytes < missing ? missing - bytes : 0);
        pinned |= bit; /* the sets without it come next */
        if (bytes_of(x, next.live & ~pinned) < missing)
            return;
    }
}

/* Bytes during a run in this way beside everything that is live now. */
static uint64_t bytes_during(const struct exact *x, const struct state *s, uint32_t way)
{
    uint32_t v = x->problem->node_of[way];
    return bytes_of(x, s->live) + x->problem->bytes[v] + x->problem->workspace[way] +
           lasting_of(x, s->done | UINT64_C(1) << v);
}

static void run_way(struct exact *x, uint32_t from, uint32_t way)
{
    const struct remat_problem *p = x->problem;
    const struct state *s = &x->states[from];
    uint32_t v = p->node_of[way];
    uint64_t bit = UINT64_C(1) << v, used = bytes_during(x, s, way);
    struct state next = {.live = s->live | bit,
                         .done = s->done | bit,
                         .cost = s->cost + p->ticks[way] - (s->done & bit ? 0 : p->least_ticks[v]),
                         .parent = from,
                         .way = way};
    if (x->leaves & bit) /* gone after its run, but it needs its room */
        next.live &= ~bit;
    evict_and_run(x, next, x->inputs[way] | bit, 0, used > x->budget ? used - x->budget : 0);
}

/* A first run that nothing is lost by. */
static bool is_free(const struct exact *x, const struct state *s, uint32_t v)
{
    const struct remat_problem *p = x->problem;
    uint64_t bit = UINT64_C(1) << v;
    return (x->leaves & bit) && !(s->done & bit) && (s->live & x->inputs[v]) == x->inputs[v] &&
           p->lasting[v] == 0 && p->ticks[v] == p->least_ticks[v] &&
           bytes_during(x, s, v) <= x->budget;
}

static void expand(struct exact *x, uint32_t from)
{
    const struct remat_problem *p = x->problem;
    struct state s = x->states[from];
    for (uint32_t v = 0; v < p->node_count; v++)
        if (is_free(x, &s, v)) {
            run_way(x, from, v);
            return;
        }
    for (uint32_t w = 0; w < p->way_count && !x->full; w++) {
        uint32_t v = p->node_of[w];
        uint64_t bit = UINT64_C(1) << v;
        if ((s.live & bit) || (s.live & x->inputs[w]) != x->inputs[w])
            continue;
        if ((s.done & bit) && ((x->leaves & bit) || p->once[v])) /* nobody wants a leaf again */
            continue;
        run_way(x, from, w);
    }
}

/* Room for the states, the queue and their sets. */
static void prepare(struct exact *x)
{
    const struct remat_problem *p = x->problem;
    for (uint32_t v = 0; v < p->node_count; v++) {
        uint32_t at = v;
        for (; at > 0 && p->bytes[x->by_size[at - 1]] < p->bytes[v]; at--)
            x->by_size[at] = x->by_size[at - 1];
        x->by_size[at] = v;
        if (p->user_begin[v] == p->user_begin[v + 1])
            x->leaves |= UINT64_C(1) << v;
    }
    REMAT_NEW(x->arena, x->inputs, p->way_count);
    for (uint32_t w = 0; w < p->way_count; w++)
        for (uint32_t e = p->input_begin[w]; e < p->input_begin[w + 1]; e++)
            x->inputs[w] |= UINT64_C(1) << p->inputs[e];
    for (x->slot_count = 64; x->slot_count < 2 * x->states_max;)
        x->slot_count *= 2;
    x->queue.capacity = 2 * x->states_max;
    REMAT_NEW(x->arena, x->states, x->states_max);
    REMAT_NEW(x->arena, x->slots, x->slot_count);
    REMAT_NEW(x->arena, x->queue.items, x->queue.capacity);
}

struct remat_exact remat_exact_solve(struct remat_arena *arena, const struct remat_problem *p,
                                     uint64_t budget, uint64_t limit, uint32_t states_max,
                                     struct remat_deadline *deadline)
{
    struct exact x = {.problem = p,
                      .arena = remat_scratch_open(arena->ctx),
                      .budget = budget,
                      .limit = limit,
                      .states_max = states_max};
    struct remat_exact out = {0};
    uint64_t all = ~UINT64_C(0) >> (REMAT_EXACT_NODES_MAX - p->node_count);
    bool over = false; /* what was dropped then costs no less than the state it came from */
    assert(p->node_count <= REMAT_EXACT_NODES_MAX && states_max > 1);
    prepare(&x);
    reach(&x, (struct state){0});
    for (uint32_t steps = 0; x.queue.count && !over; steps++) {
        uint32_t at = queue_take(&x.queue, 0).state;
        struct state *s = &x.states[at];
        if (s->closed)
            continue;
        s->closed = true;
        out.ticks = s->cost;
        out.solved = s->done == all;
        if (out.solved) {
            struct remat_sequence *sequence = &out.sequence;
            for (uint32_t i = at; i; i = x.states[i].parent)
                sequence->capacity++;
            REMAT_NEW(arena, sequence->items, sequence->capacity);
            sequence->count = sequence->capacity;
            for (size_t i = at, to = sequence->count; i; i = x.states[i].parent)
                sequence->items[--to] = x.states[i].way;
            break;
        }
        expand(&x, at);
        over = x.full || (steps % POLL == 0 && remat_deadline_expired(deadline));
    }
    if (!out.solved && !over) {
        out.infeasible = true;
        out.ticks = limit;
    }
    remat_scratch_close(x.arena);
    return out;
}
