/* SPDX-License-Identifier: Apache-2.0 */
/* Online eviction with the future known, after Kirisame et al., "Dynamic tensor rematerialization"
 * (2021): it finds tight plans of many recomputations, which the search then shortens. */
#include "solvers.h"

#include "heap.h"

#include <math.h>

enum { LOOK_BACK = 48, RUNS_PER_NODE = 40 };
/* Looks at a value or an input. Late: after the deadline, together about 0.15 s. */
enum { LATE = 6000000, LATE_TOGETHER = 12000000 };
enum { LOOKS_MAX = 20000000, LOOKS_PER_NODE = 40, PLANS = 5 };

const struct remat_eviction remat_evictions[REMAT_EVICTIONS] = {
    {1, 1, 1, NULL, false},  {1, 1, 1, NULL, true}, {0, 1, 1, NULL, true}, {1, 1, 0.5, NULL, true},
    {0.5, 1, 1, NULL, true}, {0, 0, 1, NULL, true}, {1, 0, 1, NULL, true}, {1, 1, 2, NULL, true}};

/* A value, and what it was worth when last looked at. */
struct resident {
    double worth;
    remat_problem_node value;
    size_t place; /* in the heap, + 1; 0: it is not there */
};

static bool goes_before(struct resident *const *a, struct resident *const *b)
{
    return (*a)->worth != (*b)->worth ? (*a)->worth < (*b)->worth : (*a)->value.i < (*b)->value.i;
}

static void placed(struct resident **resident, size_t place)
{
    (*resident)->place = place + 1;
}
REMAT_HEAP_PLACED(resident_heap, struct resident *, goes_before, placed);

struct greedy {
    const struct remat_problem *problem;
    const struct remat_eviction *eviction;
    struct remat_arena *arena, *scratch; /* arena: of the sequence */
    struct remat_deadline *deadline;
    struct remat_looks *looks;
    uint64_t budget, used;
    uint32_t position; /* in the given order */
    bool *live, *ran;
    uint32_t *pins;     /* by value: how many pending runs read it */
    uint32_t *next_use; /* by value: index into users of the first user after `position` */
    uint32_t *mark, stamp;
    uint64_t work, counted; /* looks, in all and when last counted; too many: give up */
    /* Values that may go, least worth first. Worth falls only where `update` is called; elsewhere
     * it grows, so the first is the least once its worth is of now. */
    struct resident_heap heap;
    struct resident *residents; /* by value */
    remat_problem_node *stack;
    struct remat_sequence out;
};

/* v, and breadth first what is missing of its inputs, and of theirs; or what has been made of it,
 * up to what is live. Returns how many; not more than LOOK_BACK. */
static inline uint32_t look_around(struct greedy *g, remat_problem_node v, bool users,
                                   remat_problem_node *found)
{
    const struct remat_problem *p = g->problem;
    const uint32_t *begin = users ? p->user_begin : p->input_begin;
    const remat_problem_node *items = users ? p->users : p->inputs;
    uint32_t count = 0;
    g->stamp++;
    found[count++] = v;
    for (uint32_t i = 0; i < count; i++) {
        if (users && i > 0 && g->live[found[i].i])
            continue;
        uint32_t end = begin[found[i].i + 1];
        for (uint32_t e = begin[found[i].i]; e < end && count < LOOK_BACK; e++) {
            remat_problem_node u = items[e];
            g->work++;
            if ((users ? !g->ran[u.i] : g->live[u.i]) || g->mark[u.i] == g->stamp)
                continue;
            g->mark[u.i] = g->stamp;
            found[count++] = u;
        }
    }
    return count;
}

/* Time to recompute v from what is live, as far as a short look back sees. */
static double restore_cost(struct greedy *g, remat_problem_node v)
{
    remat_problem_node found[LOOK_BACK];
    uint32_t count = look_around(g, v, false, found);
    double cost = 0;
    g->work += count;
    for (uint32_t i = 0; i < count; i++)
        cost += g->problem->time[found[i].i];
    return cost;
}

static remat_problem_node find_next_use(struct greedy *g, remat_problem_node v)
{
    const struct remat_problem *p = g->problem;
    while (g->next_use[v.i] < p->user_begin[v.i + 1] && p->users[g->next_use[v.i]].i < g->position)
        g->next_use[v.i]++;
    return g->next_use[v.i] < p->user_begin[v.i + 1] ? p->users[g->next_use[v.i]]
                                                     : REMAT_NO_PROBLEM_NODE;
}

static double worth(struct greedy *g, remat_problem_node v)
{
    remat_problem_node use = find_next_use(g, v);
    double distance = use.i == UINT32_MAX ? 1e9 : (double)(use.i - g->position) + 1;
    const struct remat_eviction *e = g->eviction;
    double favour = e->keep && e->keep[v.i] && use.i != UINT32_MAX ? 1e12 : 1;
    favour *= g->problem->once[v.i] ? 1e24 : 1;
    return favour * pow(restore_cost(g, v) + 1e-9, e->cost) /
           pow((double)g->problem->bytes[v.i] + 1, e->bytes) / pow(distance, e->distance);
}

/* After a change of v: whether it may go, and what it is worth. */
static void update(struct greedy *g, remat_problem_node v)
{
    struct resident *resident = &g->residents[v.i];
    size_t place = resident->place;
    if (g->live[v.i] && g->pins[v.i] == 0 && g->problem->bytes[v.i]) {
        resident->worth = worth(g, v);
        if (place)
            resident_heap_settle(&g->heap, place - 1, resident);
        else
            resident_heap_push(g->scratch, &g->heap, resident);
    } else if (place) {
        resident_heap_take(&g->heap, place - 1)->place = 0;
    }
}

/* v is there again: what is made from it, as far as `restore_cost` sees, is worth less. */
static void update_users(struct greedy *g, remat_problem_node v)
{
    remat_problem_node found[LOOK_BACK];
    uint32_t count = look_around(g, v, true, found);
    for (uint32_t i = 1; i < count; i++)
        update(g, found[i]);
}

static void drop(struct greedy *g, remat_problem_node v)
{
    g->live[v.i] = false;
    g->used -= g->problem->bytes[v.i];
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

/* Makes room for a run of `node`: its value and workspace. */
static bool make_room(struct greedy *g, remat_problem_node node)
{
    uint64_t bytes = g->problem->bytes[node.i] + g->problem->workspace[node.i];
    bytes += g->ran[node.i] ? 0 : g->problem->lasting[node.i];
    while (g->used + bytes > g->budget) {
        if (g->heap.count == 0 || is_over(g))
            return false;
        const struct resident *victim = g->heap.items[0];
        update(g, victim->value);
        if (g->heap.items[0] == victim)
            drop(g, victim->value);
    }
    return true;
}

static remat_problem_node choose_missing(struct greedy *g, remat_problem_node v)
{
    const struct remat_problem *p = g->problem;
    remat_problem_node best = REMAT_NO_PROBLEM_NODE;
    double most = -1;
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        g->work++;
        double cost = g->live[u.i] ? -1 : g->eviction->deep_first ? restore_cost(g, u) : 0;
        if (cost > most) {
            most = cost;
            best = u;
        }
    }
    return best;
}

static void pin_inputs(struct greedy *g, remat_problem_node v, bool pin)
{
    const struct remat_problem *p = g->problem;
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
        g->pins[p->inputs[e].i] += pin ? 1u : UINT32_MAX;
        update(g, p->inputs[e]);
    }
}

/* Runs v after whatever is missing; false when it gets stuck. Every node on the stack pins its
 * inputs; the inputs of one that waits are smaller numbers than it, so the stack is finite. */
static bool run(struct greedy *g, remat_problem_node node)
{
    const struct remat_problem *p = g->problem;
    uint32_t depth = 0;
    g->stack[depth++] = node;
    pin_inputs(g, node, true);
    while (depth) {
        remat_problem_node v = g->stack[depth - 1], missing = choose_missing(g, v);
        if (missing.i != UINT32_MAX) {
            g->stack[depth++] = missing;
            pin_inputs(g, missing, true);
            continue;
        }
        bool again = g->ran[v.i];
        if (is_over(g) || !make_room(g, v) ||
            g->out.count >= (size_t)p->node_count * RUNS_PER_NODE || (again && p->once[v.i]))
            return false;
        REMAT_PUSH(g->arena, &g->out, remat_given_mode(v));
        g->used += p->bytes[v.i] + (again ? 0 : p->lasting[v.i]);
        g->live[v.i] = g->ran[v.i] = true;
        pin_inputs(g, v, false);
        update(g, v);
        if (again)
            update_users(g, v);
        depth--;
        if (p->user_begin[v.i] == p->user_begin[v.i + 1])
            drop(g, v);
    }
    return true;
}

/* Frees what no later node of the given order reads, unless something near could need it. */
static void drop_finished(struct greedy *g, remat_problem_node v)
{
    const struct remat_problem *p = g->problem;
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        if (g->live[u.i] && !p->once[u.i] && find_next_use(g, u).i == UINT32_MAX)
            drop(g, u);
        else
            update(g, u);
    }
}

struct remat_sequence remat_construct_greedy(struct remat_arena *arena,
                                             const struct remat_problem *p, uint64_t budget,
                                             const struct remat_eviction *eviction,
                                             struct remat_deadline *deadline,
                                             struct remat_looks *looks)
{
    struct greedy g = {.problem = p,
                       .eviction = eviction,
                       .arena = arena,
                       .scratch = remat_scratch_open(arena->ctx),
                       .deadline = deadline,
                       .looks = looks,
                       .budget = budget};
    REMAT_NEW(g.scratch, g.live, p->node_count);
    REMAT_NEW(g.scratch, g.ran, p->node_count);
    REMAT_NEW(g.scratch, g.pins, p->node_count);
    REMAT_NEW(g.scratch, g.mark, p->node_count);
    REMAT_NEW(g.scratch, g.stack, p->node_count);
    REMAT_NEW(g.scratch, g.residents, p->node_count);
    g.next_use = remat_copy(g.scratch, p->user_begin, p->node_count, sizeof *g.next_use);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        g.residents[v.i].value = v;
    bool ok = true;
    for (remat_problem_node v = {0}; v.i < p->node_count && ok; v.i++) {
        g.position = v.i;
        ok = run(&g, v);
        g.position = v.i + 1;
        drop_finished(&g, v);
    }
    remat_scratch_close(g.scratch);
    return ok ? g.out : (struct remat_sequence){0};
}
