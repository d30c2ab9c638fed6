/* SPDX-License-Identifier: Apache-2.0 */
/* Online eviction with the future known, after Kirisame et al., "Dynamic tensor rematerialization"
 * (2021): it finds tight plans of many recomputations, which the search then shortens. */
#include "construct.h"

#include <math.h>

enum { LOOK_BACK = 48, RUNS_PER_NODE = 40 };
/* Looks at a value or an input. Late: after the deadline, together about 0.15 s. */
enum { LATE = 6000000, LATE_TOGETHER = 12000000 };
enum { LOOKS_MAX = 20000000, LOOKS_PER_NODE = 40, PLANS = 5 };

const struct remat_eviction remat_evictions[REMAT_EVICTIONS] = {
    {1, 1, 1, NULL, false},  {1, 1, 1, NULL, true}, {0, 1, 1, NULL, true}, {1, 1, 0.5, NULL, true},
    {0.5, 1, 1, NULL, true}, {0, 0, 1, NULL, true}, {1, 0, 1, NULL, true}, {1, 1, 2, NULL, true}};

struct greedy {
    const struct remat_problem *problem;
    const struct remat_eviction *eviction;
    struct remat_arena *arena;
    struct remat_deadline *deadline;
    struct remat_looks *looks;
    uint64_t budget, used;
    uint32_t position; /* in the given order */
    bool *live, *ran;
    uint32_t *pins;     /* how many pending runs read the value */
    uint32_t *next_use; /* index into users of the first user after `position` */
    uint32_t *mark, stamp;
    uint64_t work, counted; /* looks, in all and when last counted; too many: give up */
    /* What may go, least worth first. Worth falls only where `update` is called; elsewhere it
     * grows, so the first is the least once its worth is of now. */
    uint32_t *heap, heap_count, *heap_at; /* heap_at: place + 1 by value; 0: not there */
    double *heap_worth;                   /* by value, when last looked at */
    uint32_t *stack;
    struct remat_sequence *out;
};

/* Time to make v again from what is live, as far as a short look back sees. */
static double restore_cost(struct greedy *g, uint32_t v)
{
    const struct remat_problem *p = g->problem;
    uint32_t found[LOOK_BACK], count = 0;
    double cost = 0;
    g->stamp++;
    found[count++] = v;
    for (uint32_t i = 0; i < count; i++) {
        cost += p->time[found[i]];
        g->work++;
        uint32_t end = p->input_begin[found[i] + 1];
        for (uint32_t e = p->input_begin[found[i]]; e < end && count < LOOK_BACK; e++) {
            uint32_t u = p->inputs[e];
            g->work++;
            if (g->live[u] || g->mark[u] == g->stamp)
                continue;
            g->mark[u] = g->stamp;
            found[count++] = u;
        }
    }
    return cost;
}

static uint32_t find_next_use(struct greedy *g, uint32_t v)
{
    const struct remat_problem *p = g->problem;
    while (g->next_use[v] < p->user_begin[v + 1] && p->users[g->next_use[v]] < g->position)
        g->next_use[v]++;
    return g->next_use[v] < p->user_begin[v + 1] ? p->users[g->next_use[v]] : UINT32_MAX;
}

static double worth(struct greedy *g, uint32_t v)
{
    uint32_t use = find_next_use(g, v);
    double distance = use == UINT32_MAX ? 1e9 : (double)(use - g->position) + 1;
    const struct remat_eviction *e = g->eviction;
    double favour = e->keep && e->keep[v] && use != UINT32_MAX ? 1e12 : 1;
    favour *= g->problem->once[v] ? 1e24 : 1;
    return favour * pow(restore_cost(g, v) + 1e-9, e->cost) /
           pow((double)g->problem->bytes[v] + 1, e->bytes) / pow(distance, e->distance);
}

/* --- the heap --- */

static bool goes_before(const struct greedy *g, uint32_t a, uint32_t b)
{
    return g->heap_worth[a] != g->heap_worth[b] ? g->heap_worth[a] < g->heap_worth[b] : a < b;
}

static void heap_put(struct greedy *g, uint32_t i, uint32_t v)
{
    g->heap[i] = v;
    g->heap_at[v] = i + 1;
}

/* Puts v where it belongs, the place i being free. */
static void heap_settle(struct greedy *g, uint32_t i, uint32_t v)
{
    for (; i > 0 && goes_before(g, v, g->heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap_put(g, i, g->heap[(i - 1) / 2]);
    for (uint32_t child; (child = 2 * i + 1) < g->heap_count; i = child) {
        if (child + 1 < g->heap_count && goes_before(g, g->heap[child + 1], g->heap[child]))
            child++;
        if (!goes_before(g, g->heap[child], v))
            break;
        heap_put(g, i, g->heap[child]);
    }
    heap_put(g, i, v);
}

/* After a change of v: whether it may go, and what it is worth. */
static void update(struct greedy *g, uint32_t v)
{
    uint32_t at = g->heap_at[v];
    if (g->live[v] && g->pins[v] == 0 && g->problem->bytes[v]) {
        g->heap_worth[v] = worth(g, v);
        heap_settle(g, at ? at - 1 : g->heap_count++, v);
    } else if (at) {
        uint32_t last = g->heap[--g->heap_count];
        g->heap_at[v] = 0;
        if (last != v)
            heap_settle(g, at - 1, last);
    }
}

/* v is there again: what is made from it, as far as `restore_cost` sees, is worth less. */
static void update_users(struct greedy *g, uint32_t v)
{
    const struct remat_problem *p = g->problem;
    uint32_t found[LOOK_BACK], count = 0;
    g->stamp++;
    found[count++] = v;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && g->live[found[i]])
            continue;
        uint32_t end = p->user_begin[found[i] + 1];
        for (uint32_t e = p->user_begin[found[i]]; e < end && count < LOOK_BACK; e++) {
            uint32_t u = p->users[e];
            g->work++;
            if (!g->ran[u] || g->mark[u] == g->stamp)
                continue;
            g->mark[u] = g->stamp;
            found[count++] = u;
        }
    }
    for (uint32_t i = 1; i < count; i++)
        update(g, found[i]);
}

static void drop(struct greedy *g, uint32_t v)
{
    g->live[v] = false;
    g->used -= g->problem->bytes[v];
    update(g, v);
}

static uint64_t looks_max(const struct remat_problem *p)
{
    return LOOKS_MAX + (uint64_t)p->node_count * LOOKS_PER_NODE;
}

struct remat_looks remat_construct_looks(const struct remat_problem *p)
{
    return (struct remat_looks){PLANS * looks_max(p), LATE_TOGETHER};
}

static bool is_over(struct greedy *g)
{
    uint64_t looks = g->work - g->counted;
    bool late = remat_deadline_count(g->deadline, looks);
    uint64_t *left = late ? &g->looks->late : &g->looks->left;
    g->counted = g->work;
    *left -= looks < *left ? looks : *left;
    return *left == 0 || g->work > (late ? LATE : looks_max(g->problem));
}

/* For a run of `node`: its value and workspace. */
static bool make_room(struct greedy *g, uint32_t node)
{
    uint64_t bytes = g->problem->bytes[node] + g->problem->workspace[node];
    bytes += g->ran[node] ? 0 : g->problem->lasting[node];
    while (g->used + bytes > g->budget) {
        if (g->heap_count == 0 || is_over(g))
            return false;
        uint32_t victim = g->heap[0];
        update(g, victim);
        if (g->heap[0] == victim)
            drop(g, victim);
    }
    return true;
}

static uint32_t choose_missing(struct greedy *g, uint32_t v)
{
    const struct remat_problem *p = g->problem;
    uint32_t best = UINT32_MAX;
    double most = -1;
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++) {
        uint32_t u = p->inputs[e];
        g->work++;
        double cost = g->live[u] ? -1 : g->eviction->deep_first ? restore_cost(g, u) : 0;
        if (cost > most) {
            most = cost;
            best = u;
        }
    }
    return best;
}

static void pin_inputs(struct greedy *g, uint32_t v, bool pin)
{
    const struct remat_problem *p = g->problem;
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++) {
        g->pins[p->inputs[e]] += pin ? 1u : UINT32_MAX;
        update(g, p->inputs[e]);
    }
}

/* Runs v after whatever is missing. Every node on the stack pins its inputs; the inputs of one that
 * waits are smaller numbers than it, so the stack is finite. */
static void run(struct greedy *g, uint32_t node, bool *ok)
{
    const struct remat_problem *p = g->problem;
    uint32_t depth = 0;
    g->stack[depth++] = node;
    pin_inputs(g, node, true);
    while (depth && *ok) {
        uint32_t v = g->stack[depth - 1], missing = choose_missing(g, v);
        if (missing != UINT32_MAX) {
            g->stack[depth++] = missing;
            pin_inputs(g, missing, true);
            continue;
        }
        *ok = !is_over(g) && make_room(g, v) &&
              g->out->count < (size_t)p->node_count * RUNS_PER_NODE && !(g->ran[v] && p->once[v]);
        REMAT_PUSH(g->arena, g->out, v);
        bool again = g->ran[v];
        g->used += p->bytes[v] + (again ? 0 : p->lasting[v]);
        g->live[v] = g->ran[v] = true;
        pin_inputs(g, v, false);
        update(g, v);
        if (again)
            update_users(g, v);
        depth--;
        if (p->user_begin[v] == p->user_begin[v + 1])
            drop(g, v);
    }
}

/* Frees what no later node of the given order reads, unless something near could need it. */
static void drop_finished(struct greedy *g, uint32_t v)
{
    const struct remat_problem *p = g->problem;
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++) {
        uint32_t u = p->inputs[e];
        if (g->live[u] && !p->once[u] && find_next_use(g, u) == UINT32_MAX)
            drop(g, u);
        else
            update(g, u);
    }
}

void remat_construct_greedy(struct remat_arena *arena, const struct remat_problem *p,
                            uint64_t budget, const struct remat_eviction *eviction,
                            struct remat_deadline *deadline, struct remat_looks *looks,
                            struct remat_sequence *out, bool *ok)
{
    struct greedy g = {.problem = p,
                       .eviction = eviction,
                       .arena = arena,
                       .deadline = deadline,
                       .looks = looks,
                       .budget = budget,
                       .out = out};
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    *out = (struct remat_sequence){0};
    *ok = true;
    REMAT_NEW(own, g.live, p->node_count);
    REMAT_NEW(own, g.ran, p->node_count);
    REMAT_NEW(own, g.pins, p->node_count);
    REMAT_NEW(own, g.next_use, p->node_count);
    REMAT_NEW(own, g.mark, p->node_count);
    REMAT_NEW(own, g.stack, p->node_count);
    REMAT_NEW(own, g.heap, p->node_count);
    REMAT_NEW(own, g.heap_at, p->node_count);
    REMAT_NEW(own, g.heap_worth, p->node_count);
    memcpy(g.next_use, p->user_begin, p->node_count * sizeof *g.next_use);
    for (uint32_t v = 0; v < p->node_count && *ok; v++) {
        g.position = v;
        run(&g, v, ok);
        g.position = v + 1;
        drop_finished(&g, v);
    }
    if (!*ok)
        out->count = 0;
    remat_scratch_close(own);
}
