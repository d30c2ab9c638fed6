/* SPDX-License-Identifier: Apache-2.0 */
/* For each budget a few annealing runs from the best sequences known; everything found at one
 * budget is a candidate at all others. The simulator has the last word on each. */
#include "solve.h"

#include "bound.h"
#include "chain.h"
#include "construct.h"
#include "descend.h"
#include "exact.h"
#include "idle.h"

#include <math.h>

enum {
    CUTS = 48,
    CUTS_WORK = 20000,
    STATES_FEW = 20000,
    STATES_MANY = 300000,
    STATES_MAX = 3000000,
    LEAVES_FEW = 50,
    LEAVES_MAX = 100000,
    LADDER_NODES_MAX = 256
};
#define LEAVES_WORK      1e9     /* a leaf takes about size^2 */
#define MOVES_PER_SECOND 300e3   /* of a slow machine */
#define LADDER_SHARE     2.0     /* of all moves */
#define LADDER_LARGE     1.3     /* above REMAT_DESCEND_LARGE nodes */
#define ENOUGH           1.00002 /* nothing is left to win */

static remat_status keep_if_better(struct remat_arena *arena, const struct remat_problem *problem,
                                   uint64_t budget, const struct remat_sequence *sequence,
                                   struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_simulation result;
    REMAT_TRY(remat_simulate(arena->ctx, problem, sequence->items, sequence->count, &result));
    bool fits = result.peak <= budget, better = fits && !best->fits;
    if (fits == best->fits)
        better = fits ? result.time < best->result.time : result.peak < best->result.peak;
    if (best->sequence.count && !better)
        return REMAT_OK;
    best->fits = fits;
    best->result = result;
    best->sequence = *sequence;
fail:
    return st;
}

remat_status remat_solve_given_order(struct remat_arena *arena, const struct remat_problem *p,
                                     struct remat_solution *out)
{
    remat_status st = REMAT_OK;
    struct remat_sequence order = {0};
    *out = (struct remat_solution){.lower_bound = remat_bound_from_ticks(p, 0)};
    REMAT_NEW(arena, order.items, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++)
        order.items[v] = v;
    order.count = order.capacity = p->node_count;
    REMAT_TRY(keep_if_better(arena, p, UINT64_MAX, &order, out));
fail:
    return st;
}

static bool is_good_enough(const struct remat_solution *best)
{
    return best->fits && best->result.time <= best->lower_bound * ENOUGH;
}

/* Sums in two orders may differ: that is not below 0. */
static uint64_t ticks_beyond_least(const struct remat_problem *p, const struct remat_solution *best)
{
    return (uint64_t)fmax(0, (best->result.time - p->least_time) / p->tick);
}

static void raise_bound(const struct remat_problem *p, uint64_t ticks, struct remat_solution *best)
{
    double time = remat_bound_from_ticks(p, ticks);
    if (time > best->lower_bound)
        best->lower_bound = time;
}

static double standard_moves(const struct remat_problem *p)
{
    double few = 20e3 * p->node_count, many = 600e3 + 500.0 * p->node_count, most = 10e6;
    few = few < many ? few : many;
    return few < most ? few : most;
}

double remat_solve_effort(const struct remat_problem *problem, double seconds)
{
    return seconds * MOVES_PER_SECOND / standard_moves(problem);
}

/* The cut plans between keeping more and keeping less: recomputing the first values first, as far
 * as it takes to fit. */
static remat_status try_cuts(struct remat_arena *arena, const struct remat_problem *p,
                             uint64_t budget, const struct remat_bound *bound,
                             struct remat_deadline *deadline, struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    uint32_t low = 0, high = bound->node;
    while (bound->keep_more && low < high && !remat_deadline_expired(deadline)) {
        struct remat_simulation result;
        struct remat_sequence sequence;
        uint32_t border = (low + high) / 2;
        remat_construct_cut(arena, p, bound->node, bound->keep_more, bound->keep_less, border,
                            &sequence);
        REMAT_TRY(remat_simulate(arena->ctx, p, sequence.items, sequence.count, &result));
        REMAT_TRY(keep_if_better(arena, p, budget, &sequence, best));
        if (result.peak <= budget)
            high = border;
        else
            low = border + 1;
    }
fail:
    return st;
}

/* The table of a chain serves this budget and all smaller ones. */
struct chain {
    bool sought;
    struct remat_chain *found;
};

static remat_status try_chain(struct remat_arena *arena, const struct remat_problem *p,
                              uint64_t budget, struct remat_deadline *deadline, struct chain *chain,
                              struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_sequence sequence;
    bool ok = false;
    if (best->fits && best->result.time <= fmax(best->lower_bound, p->least_time))
        return REMAT_OK;
    if (!chain->sought)
        chain->found = remat_chain_find(arena, p, budget, deadline);
    chain->sought = true;
    if (chain->found)
        remat_chain_plan(arena, chain->found, budget, &sequence, &ok);
    if (ok)
        REMAT_TRY(keep_if_better(arena, p, budget, &sequence, best));
fail:
    return st;
}

static remat_status check_bound(remat_context *ctx, const struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    if (best->fits && best->result.time < best->lower_bound)
        REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL,
                   "the bound of %.17g is above the time of a sequence that fits, %.17g",
                   best->lower_bound, best->result.time);
fail:
    return st;
}

static remat_status tell(remat_context *ctx, const struct remat_solve_options *o, uint32_t budget,
                         const struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(check_bound(ctx, best));
    if (o->progress)
        o->progress(o->user, budget, best);
fail:
    return st;
}

/* Schedules on a ladder of budgets, made when first asked for. */
struct ladder {
    bool made;
    double effort;
    struct remat_descent found;
};

struct call {
    const struct remat_problem *problem;
    const struct remat_solve_options *options;
    const struct remat_sequence *given;
    struct chain chain;
    struct ladder ladder;
    struct remat_looks looks; /* of greedy plans; those after the deadline serve all budgets */
};

/* However little time there is, until something fits. */
static remat_status try_greedy(struct remat_arena *arena, struct call *c, uint64_t budget,
                               const bool *keep, uint32_t index, struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    const struct remat_solve_options *o = c->options;
    for (size_t i = 0; i < REMAT_EVICTIONS; i++) {
        if (best->fits && remat_deadline_expired(o->deadline))
            return REMAT_OK;
        struct remat_eviction eviction = remat_evictions[i];
        struct remat_sequence sequence;
        bool ok;
        eviction.keep = keep;
        remat_construct_greedy(arena, p, budget, &eviction, o->deadline, &c->looks, &sequence, &ok);
        if (ok)
            REMAT_TRY(keep_if_better(arena, p, budget, &sequence, best));
        REMAT_TRY(tell(arena->ctx, o, index, best));
    }
fail:
    return st;
}

/* Exhaustion, where the problem is small: an optimum, or a better bound. */
static remat_status try_exact(struct remat_arena *arena, const struct remat_problem *p,
                              uint64_t budget, double states, struct remat_deadline *deadline,
                              struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_exact exact;
    uint64_t limit = UINT64_MAX;
    if (p->node_count > REMAT_EXACT_NODES_MAX || is_good_enough(best))
        return REMAT_OK;
    if (best->fits)
        limit = ticks_beyond_least(p, best) + 1;
    remat_exact_solve(arena, p, budget, limit, states < STATES_MAX ? (uint32_t)states : STATES_MAX,
                      deadline, &exact);
    if (exact.solved)
        REMAT_TRY(keep_if_better(arena, p, budget, &exact.sequence, best));
    best->impossible = exact.infeasible && !best->fits;
    if (exact.ticks != UINT64_MAX)
        raise_bound(p, exact.ticks, best);
fail:
    return st;
}

/* Closes what is left of the gap from below. */
static void try_branches(struct remat_arena *arena, const struct remat_problem *p, uint64_t budget,
                         const struct remat_bound *bound, const struct remat_solve_options *o,
                         struct remat_solution *best)
{
    double size = (double)p->node_count + p->edge_count;
    double leaves = o->effort * LEAVES_WORK / (size * size);
    if (leaves < LEAVES_FEW) /* of large problems hardly anything is decided by so few */
        return;
    for (uint32_t i = 0; i < bound->best_count && best->fits && !is_good_enough(best); i++) {
        uint64_t ticks, enough = ticks_beyond_least(p, best);
        remat_bound_branch(arena, p, budget, bound->best[i], enough,
                           leaves < LEAVES_MAX ? (uint32_t)leaves : LEAVES_MAX, o->deadline,
                           &ticks);
        raise_bound(p, ticks, best);
    }
}

/* Where nothing fits the solution becomes that of the least peak, whatever the budget. */
static remat_status try_ladder(struct remat_arena *arena, const struct remat_problem *p,
                               uint64_t budget, const struct remat_sequence *given,
                               struct remat_deadline *deadline, struct ladder *ladder,
                               struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_descent *d = &ladder->found;
    double share = p->node_count > REMAT_DESCEND_LARGE ? LADDER_LARGE : LADDER_SHARE;
    if (!ladder->made)
        REMAT_TRY(remat_descend(arena, p, given, share * ladder->effort * standard_moves(p),
                                deadline, d));
    ladder->made = true;
    const struct remat_rung *rung = remat_descent_within(d, budget);
    if (!rung)
        rung = &d->items[d->least];
    REMAT_TRY(keep_if_better(arena, p, budget, &rung->sequence, best));
fail:
    return st;
}

/* Annealing runs that differ in where they start, how hot, and what exceeding the budget costs. */
enum start {
    GIVEN,
    BEST,
    LAST,
    ABOVE
}; /* the given order, the best so far, the previous run's
      result, the rung above the budget */
struct run {
    double hot, pressure, share; /* share: of all moves */
    enum start start;
};
static const struct run always[] = {
    {3e-5, 10, 0.2, BEST}, {3e-3, 10, 0.25, GIVEN}, {1e-4, 100, 0.1, LAST}};
static const struct run large[] = {
    {3e-3, 40, 0.25, GIVEN}, {1e-4, 400, 0.1, LAST}, {3e-4, 10, 0.1, BEST}};
static const struct run after_ladder[] = {
    {2, 10, 0.1, ABOVE}, {1, 40, 0.1, ABOVE}, {0.3, 10, 0.1, BEST}};

struct runs {
    const struct run *items;
    size_t count;
    double unit, cold; /* of temperatures */
};
#define COLD           1e-6
#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

/* Improves what fits. */
static remat_status anneal(struct remat_arena *arena, const struct remat_problem *p,
                           const struct runs *runs, const struct remat_sequence *given,
                           const struct remat_sequence *above, uint64_t budget,
                           const struct remat_solve_options *o, struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_sequence last = *given;
    for (uint32_t i = 0; i < runs->count && best->fits; i++) {
        const struct run *run = &runs->items[i];
        double moves = o->effort * run->share * standard_moves(p);
        const struct remat_sequence *starts[] = {given, &best->sequence, &last, above};
        struct remat_sequence start = *starts[run->start];
        struct remat_search_options search = {.budget = budget,
                                              .moves =
                                                  moves < 1e15 ? (uint64_t)moves : (uint64_t)1e15,
                                              .events = REMAT_SEARCH_EVENTS,
                                              .seed = i + 1,
                                              .hot = run->hot * runs->unit,
                                              .cold = runs->cold * runs->unit,
                                              .pressure = run->pressure,
                                              .deadline = o->deadline};
        if (is_good_enough(best) || remat_deadline_expired(o->deadline))
            break;
        remat_search(arena, p, &start, &search, &last);
        REMAT_TRY(keep_if_better(arena, p, budget, &last, best));
    }
fail:
    return st;
}

static remat_status search_on_ladder(struct remat_arena *arena, const struct remat_problem *p,
                                     uint64_t budget, const struct remat_sequence *given,
                                     struct ladder *ladder, const struct remat_solve_options *o,
                                     struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    const struct runs runs = {after_ladder, COUNT_OF(after_ladder), 1.0 / p->node_count, 0.002};
    if (p->node_count > LADDER_NODES_MAX || !best->fits || is_good_enough(best))
        return REMAT_OK;
    REMAT_TRY(try_ladder(arena, p, budget, given, o->deadline, ladder, best));
    REMAT_TRY(anneal(arena, p, &runs, given, &remat_descent_above(&ladder->found, budget)->sequence,
                     budget, o, best));
fail:
    return st;
}

/* What needs no search: greedy plans, cut plans, chains, small problems. Sets the bound. */
static remat_status start(struct remat_arena *arena, struct call *c, uint64_t budget, uint32_t i,
                          struct remat_bound *bound, struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    const struct remat_solve_options *o = c->options;
    c->looks.left = remat_construct_looks(p).left;
    REMAT_TRY(try_greedy(arena, c, budget, NULL, i, best));
    remat_bound_time(arena, p, budget, CUTS + CUTS_WORK / p->node_count, o->deadline, bound);
    best->lower_bound = bound->time;
    REMAT_TRY(tell(arena->ctx, o, i, best));
    REMAT_TRY(try_cuts(arena, p, budget, bound, o->deadline, best));
    if (bound->keep_less && !remat_deadline_expired(o->deadline)) {
        REMAT_TRY(try_greedy(arena, c, budget, bound->keep_less, i, best));
        REMAT_TRY(try_greedy(arena, c, budget, bound->keep_more, i, best));
    }
    REMAT_TRY(try_chain(arena, p, budget, o->deadline, &c->chain, best));
    REMAT_TRY(try_exact(arena, p, budget, STATES_FEW, o->deadline, best));
    REMAT_TRY(tell(arena->ctx, o, i, best));
fail:
    return st;
}

static remat_status solve_one(struct remat_arena *arena, struct call *c, uint64_t budget,
                              uint32_t i, struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    const struct remat_solve_options *o = c->options;
    const struct runs some = {always, COUNT_OF(always), 1, COLD};
    const struct runs more = {large, COUNT_OF(large), 1, COLD};
    struct remat_bound bound;
    REMAT_TRY(start(arena, c, budget, i, &bound, best));
    if (!best->fits)
        REMAT_TRY(try_ladder(arena, p, budget, c->given, o->deadline, &c->ladder, best));
    REMAT_TRY(tell(arena->ctx, o, i, best));
    REMAT_TRY(anneal(arena, p, &some, c->given, NULL, budget, o, best));
    REMAT_TRY(tell(arena->ctx, o, i, best));
    if (p->node_count > LADDER_NODES_MAX)
        REMAT_TRY(anneal(arena, p, &more, c->given, NULL, budget, o, best));
    try_branches(arena, p, budget, &bound, o, best);
    if (p->node_count <= LADDER_NODES_MAX)
        REMAT_TRY(anneal(arena, p, &more, c->given, NULL, budget, o, best));
    if (!c->chain.found) /* its table has the schedules for every budget already */
        REMAT_TRY(search_on_ladder(arena, p, budget, c->given, &c->ladder, o, best));
    REMAT_TRY(tell(arena->ctx, o, i, best));
    REMAT_TRY(try_exact(arena, p, budget, o->effort * STATES_MANY, o->deadline, best));
fail:
    return st;
}

static remat_status solve_all(struct remat_arena *arena, const struct remat_problem *p,
                              const uint64_t *budgets, uint32_t budget_count,
                              const struct remat_solve_options *options, struct remat_solution *out)
{
    remat_status st = REMAT_OK;
    struct remat_solution given;
    struct call call = {.problem = p,
                        .options = options,
                        .given = &given.sequence,
                        .looks = remat_construct_looks(p)};
    call.ladder.effort = options->effort * (budget_count < 4 ? budget_count : 4);
    REMAT_TRY(remat_solve_given_order(arena, p, &given));
    for (uint32_t i = 0; i < budget_count; i++) {
        out[i] = (struct remat_solution){.lower_bound = remat_bound_from_ticks(p, 0)};
        REMAT_TRY(keep_if_better(arena, p, budgets[i], &given.sequence, &out[i]));
        for (uint32_t j = 0; j < i; j++)
            REMAT_TRY(keep_if_better(arena, p, budgets[i], &out[j].sequence, &out[i]));
        REMAT_TRY(solve_one(arena, &call, budgets[i], i, &out[i]));
    }
    for (uint32_t i = budget_count; i-- > 1;) /* what fits in less may be faster than it was here */
        REMAT_TRY(keep_if_better(arena, p, budgets[i - 1], &out[i].sequence, &out[i - 1]));
fail:
    return st;
}

remat_status remat_solve(struct remat_arena *arena, const struct remat_problem *p,
                         const uint64_t *budgets, uint32_t budget_count,
                         const struct remat_solve_options *options, struct remat_solution *out)
{
    remat_status st = REMAT_OK;
    struct remat_idle idle;
    REMAT_TRY(remat_idle_find(arena, p, &idle));
    REMAT_TRY(solve_all(arena, idle.count ? &idle.rest : p, budgets, budget_count, options, out));
    for (uint32_t i = 0; i < budget_count && idle.count; i++) {
        struct remat_sequence rest = out[i].sequence, *whole = &out[i].sequence;
        remat_idle_restore(arena, p, &idle, &rest, whole);
        REMAT_TRY(remat_simulate(arena->ctx, p, whole->items, whole->count, &out[i].result));
    }
    for (uint32_t i = 0; i < budget_count; i++)
        REMAT_TRY(check_bound(arena->ctx, &out[i]));
fail:
    return st;
}
