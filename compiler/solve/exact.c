/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform-cost search over states (live values, nodes that have run). The first run of a node costs
 * nothing, since every schedule pays it; a repeat costs its time. Values are evicted only to make
 * room for a run, and then a minimal set of them: any schedule can be followed with more kept than
 * it keeps, skipping its repeats of what is still there. A node without users that fits beside
 * everything live is run at once, for the same reason. Nodes that take nothing and nobody reads run
 * first. */
#include "solvers.h"

#include <assert.h>

#include "heap.h"
#include "index.h"

enum { POLL = 256 };

REMAT_INDEX(state_id);
REMAT_INDEX(run_id);

struct state {
    uint64_t live, done, cost;
    state_id parent;
    run_id run; /* that led here */
    bool closed;
};

struct entry {
    uint64_t cost;
    uint32_t depth; /* nodes that have run */
    state_id state;
};

/* By cost, deeper ones first among equals. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return a->depth != b->depth ? a->depth > b->depth : a->state.i > b->state.i;
}
REMAT_HEAP(queue, struct entry, comes_before);

/* A mode of a node that is not idle. */
struct run {
    remat_mode_id mode;
    uint64_t bit, inputs;         /* sets */
    uint64_t bytes;               /* value and workspace */
    uint64_t ticks, beyond_least; /* of a repeat; of a first run */
};

/* Sets have a bit for each node that is not idle. */
struct exact {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    uint64_t budget, limit;
    uint32_t node_count, run_count;
    uint64_t bytes[REMAT_EXACT_NODES_MAX], lasting[REMAT_EXACT_NODES_MAX]; /* by bit */
    uint32_t by_size[REMAT_EXACT_NODES_MAX];                               /* largest first */
    uint64_t leaves, once; /* sets: nodes without users, nodes that never run again */
    struct run *runs;      /* the given modes first */
    struct state *states;
    uint32_t state_count, states_max;
    struct remat_index index; /* of states, by live and done */
    struct queue queue;
    bool full;
};

static uint64_t sum(const uint64_t *bytes, uint64_t set)
{
    uint64_t all = 0;
    for (; set; set &= set - 1)
        all += bytes[__builtin_ctzll(set)];
    return all;
}

/* Into the queue, which does not grow. */
static void enqueue(struct exact *x, state_id state)
{
    const struct state *s = &x->states[state.i];
    x->full |= x->queue.count == x->queue.capacity;
    if (!x->full)
        queue_push(x->arena, &x->queue,
                   (struct entry){s->cost, (uint32_t)__builtin_popcountll(s->done), state});
}

static void reach(struct exact *x, struct state next)
{
    const uint64_t key[2] = {next.live, next.done}, hash = remat_hash(key, sizeof key, 0);
    uint32_t i;
    if (next.cost >= x->limit)
        return;
    for (size_t at = 0; (i = remat_index_find(&x->index, hash, &at)) != UINT32_MAX;) {
        struct state *s = &x->states[i];
        if (s->live != next.live || s->done != next.done)
            continue;
        if (!s->closed && next.cost < s->cost) {
            *s = next;
            enqueue(x, (state_id){i});
        }
        return;
    }
    x->full |= x->state_count == x->states_max;
    if (x->full)
        return;
    remat_index_add(x->arena, &x->index, hash, x->state_count);
    x->states[x->state_count] = next;
    enqueue(x, (state_id){x->state_count++});
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
    if (sum(x->bytes, next.live & ~pinned) < missing)
        return;
    for (; i < x->node_count; i++) {
        uint64_t bit = UINT64_C(1) << x->by_size[i], bytes = x->bytes[x->by_size[i]];
        if (!(next.live & bit) || (pinned & bit))
            continue;
        struct state without = next;
        without.live &= ~bit;
        evict_and_run(x, without, pinned, i + 1, bytes < missing ? missing - bytes : 0);
        pinned |= bit; /* the sets without it come next */
        if (sum(x->bytes, next.live & ~pinned) < missing)
            return;
    }
}

/* Bytes during a run beside everything that is live now. */
static uint64_t bytes_during(const struct exact *x, const struct state *s, const struct run *run)
{
    return sum(x->bytes, s->live) + run->bytes + sum(x->lasting, s->done | run->bit);
}

static void run(struct exact *x, state_id from, run_id r)
{
    const struct state *s = &x->states[from.i];
    const struct run *run = &x->runs[r.i];
    uint64_t used = bytes_during(x, s, run);
    struct state next = {.live = s->live | run->bit,
                         .done = s->done | run->bit,
                         .cost = s->cost + (s->done & run->bit ? run->ticks : run->beyond_least),
                         .parent = from,
                         .run = r};
    if (x->leaves & run->bit) /* gone after its run, but it needs its room */
        next.live &= ~run->bit;
    evict_and_run(x, next, run->inputs | run->bit, 0, used > x->budget ? used - x->budget : 0);
}

/* A first run that nothing is lost by. */
static bool is_free(const struct exact *x, const struct state *s, const struct run *run)
{
    return (x->leaves & ~s->done & run->bit) && (s->live & run->inputs) == run->inputs &&
           sum(x->lasting, run->bit) == 0 && run->beyond_least == 0 &&
           bytes_during(x, s, run) <= x->budget;
}

static void expand(struct exact *x, state_id from)
{
    struct state s = x->states[from.i];
    uint64_t over = s.live | (s.done & (x->leaves | x->once)); /* nobody wants a leaf again */
    for (run_id r = {0}; r.i < x->node_count; r.i++)
        if (is_free(x, &s, &x->runs[r.i])) {
            run(x, from, r);
            return;
        }
    for (run_id r = {0}; r.i < x->run_count && !x->full; r.i++) {
        const struct run *next = &x->runs[r.i];
        if (!(over & next->bit) && (s.live & next->inputs) == next->inputs)
            run(x, from, r);
    }
}

/* Without inputs, users, time and bytes: no plan is about it. */
static bool is_idle(const struct remat_problem *p, remat_problem_node v)
{
    return p->input_begin[v.i] == p->input_begin[v.i + 1] &&
           p->user_begin[v.i] == p->user_begin[v.i + 1] && !p->fusible[v.i] &&
           p->mode_begin[v.i + 1] - p->mode_begin[v.i] == 1 && p->time[v.i] == 0 &&
           p->bytes[v.i] == 0 && p->lasting[v.i] == 0 && p->workspace[v.i] == p->static_bytes;
}

/* The nodes that are not idle and their modes; false when they are too many. */
static bool list_nodes(struct exact *x)
{
    const struct remat_problem *p = x->problem;
    uint64_t *bit; /* by node */
    REMAT_NEW(x->arena, bit, p->node_count);
    REMAT_NEW(x->arena, x->runs, p->mode_count);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        uint32_t i = x->node_count, at = i;
        if (is_idle(p, v))
            continue;
        if (x->node_count++ == REMAT_EXACT_NODES_MAX)
            return false;
        bit[v.i] = UINT64_C(1) << i;
        x->bytes[i] = p->bytes[v.i];
        x->lasting[i] = p->lasting[v.i];
        x->leaves |= p->user_begin[v.i] == p->user_begin[v.i + 1] ? bit[v.i] : 0;
        x->once |= p->once[v.i] ? bit[v.i] : 0;
        for (; at > 0 && x->bytes[x->by_size[at - 1]] < p->bytes[v.i]; at--)
            x->by_size[at] = x->by_size[at - 1];
        x->by_size[at] = i;
    }
    for (remat_mode_id w = {0}; w.i < p->mode_count; w.i++) {
        remat_problem_node v = p->node_of[w.i];
        struct run run = {.mode = w,
                          .bit = bit[v.i],
                          .bytes = p->bytes[v.i] + p->workspace[w.i],
                          .ticks = p->ticks[w.i],
                          .beyond_least = p->ticks[w.i] - p->least_ticks[v.i]};
        for (uint32_t e = p->input_begin[w.i]; e < p->input_begin[w.i + 1]; e++)
            run.inputs |= bit[p->inputs[e].i];
        if (run.bit)
            x->runs[x->run_count++] = run;
    }
    return true;
}

/* Idle nodes, then the runs that led to the state. */
static struct remat_sequence trace(struct remat_arena *arena, const struct exact *x, state_id state)
{
    const struct remat_problem *p = x->problem;
    struct remat_sequence out = {.capacity = p->node_count - x->node_count};
    for (state_id i = state; i.i; i = x->states[i.i].parent)
        out.capacity++;
    REMAT_NEW(arena, out.items, out.capacity);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        if (is_idle(p, v))
            out.items[out.count++] = remat_given_mode(v);
    out.count = out.capacity;
    for (size_t to = out.count; state.i; state = x->states[state.i].parent)
        out.items[--to] = x->runs[x->states[state.i].run.i].mode;
    return out;
}

struct remat_exact remat_exact_solve(struct remat_arena *arena, const struct remat_problem *p,
                                     uint64_t budget, uint64_t limit, uint32_t states_max,
                                     struct remat_deadline *deadline)
{
    assert(states_max >= 2);
    struct exact x = {.problem = p,
                      .arena = remat_scratch_open(arena->ctx),
                      .budget = budget,
                      .limit = limit,
                      .states_max = states_max};
    struct remat_exact out = {0};
    bool over = !list_nodes(&x); /* what was dropped costs no less than the state it came from */
    if (!over) {
        x.queue.capacity = 2 * (size_t)states_max;
        REMAT_NEW(x.arena, x.states, states_max);
        REMAT_NEW(x.arena, x.queue.items, x.queue.capacity);
        reach(&x, (struct state){0});
    }
    for (uint32_t steps = 0; x.queue.count && !over; steps++) {
        state_id at = queue_take(&x.queue, 0).state;
        struct state *s = &x.states[at.i];
        if (s->closed)
            continue;
        s->closed = true;
        out.ticks = s->cost;
        out.solved = __builtin_popcountll(s->done) == (int)x.node_count;
        if (out.solved) {
            out.sequence = trace(arena, &x, at);
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
