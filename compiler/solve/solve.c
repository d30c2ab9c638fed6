/* SPDX-License-Identifier: Apache-2.0 */
/* For each budget a few annealing runs from the best sequences known; everything found at one
 * budget is a candidate at all others. The simulator has the last word on each. */
#include "solve.h"

#include <assert.h>
#include <math.h>

enum {
    CUTS = 48,
    CUTS_WORK = 20000,
    STATES_FEW = 20000,
    STATES_MANY = 300000,
    STATES_MAX = 3000000,
    LEAVES_FEW = 50,
    LEAVES_MAX = 100000
};
#define LEAVES_WORK      1e9     /* a leaf takes about size^2 */
#define MOVES_PER_SECOND 300e3   /* of a slow machine */
#define ENOUGH           1.00002 /* nothing is left to win */

struct solver {
    struct remat_arena *arena;
    const struct remat_problem *problem;
    const struct remat_solve_options *options;
    struct remat_deadline *deadline;
    const struct remat_sequence *given;
    remat_status st; /* the first failure, of the simulator or of a bound; nothing is kept or told
                        from then on */
    /* The table of a chain serves the budget that it is sought at and all smaller ones. */
    bool chain_sought;
    struct remat_chain *chain;
    /* Schedules on a ladder of budgets, made when first asked for. */
    bool ladder_made;
    double ladder_effort;
    struct remat_descent ladder;
    struct remat_looks looks; /* of greedy plans; those after the deadline serve all budgets */
    /* At hand. */
    uint64_t budget;
    uint32_t index; /* of the budget */
    struct remat_schedule_bound bound;
    struct remat_solution *best;
};

static struct remat_simulation keep_if_better(struct solver *s,
                                              const struct remat_sequence *sequence)
{
    struct remat_simulation result = {0};
    struct remat_solution *best = s->best;
    if (s->st == REMAT_OK)
        s->st =
            remat_simulate(s->arena->ctx, s->problem, sequence->items, sequence->count, &result);
    if (s->st != REMAT_OK)
        return result;
    if (best->sequence.count == 0 || remat_is_better(&result, &best->result, s->budget)) {
        best->fits = result.peak <= s->budget;
        best->result = result;
        best->sequence = *sequence;
    }
    return result;
}

remat_status remat_solve_given_order(struct remat_arena *arena, const struct remat_problem *p,
                                     struct remat_solution *out)
{
    struct solver s = {.arena = arena, .problem = p, .budget = UINT64_MAX, .best = out};
    struct remat_sequence order = {.count = p->node_count, .capacity = p->node_count};
    *out = (struct remat_solution){.lower_bound = remat_bound_from_ticks(p, 0)};
    REMAT_NEW(arena, order.items, p->node_count);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        order.items[v.i] = remat_given_mode(v);
    keep_if_better(&s, &order);
    return s.st;
}

static bool is_good_enough(const struct remat_solution *best)
{
    return best->fits && best->result.time <= best->lower_bound * ENOUGH;
}

/* Sums in two orders may differ: that is not below 0. */
static uint64_t ticks_beyond_least(const struct solver *s)
{
    return (uint64_t)fmax(0, (s->best->result.time - s->problem->least_time) / s->problem->tick);
}

static void raise_bound(struct solver *s, uint64_t ticks)
{
    s->best->lower_bound = fmax(s->best->lower_bound, remat_bound_from_ticks(s->problem, ticks));
}

static double standard_moves(const struct remat_problem *p)
{
    return fmin(10e6, fmin(20e3 * p->node_count, 600e3 + 500.0 * p->node_count));
}

double remat_solve_effort(const struct remat_problem *problem, double seconds)
{
    return seconds * MOVES_PER_SECOND / standard_moves(problem);
}

static remat_status check_bound(remat_context *ctx, const struct remat_solution *best)
{
    if (best->fits && best->result.time < best->lower_bound)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "the bound of %.17g is above the time of a sequence that fits, %.17g",
                           best->lower_bound, best->result.time);
    return REMAT_OK;
}

static void tell(struct solver *s)
{
    if (s->st == REMAT_OK)
        s->st = check_bound(s->arena->ctx, s->best);
    if (s->st == REMAT_OK && s->options->progress)
        s->options->progress(s->options->user, s->index, s->best);
}

/* However little time there is, until something fits. */
static void try_greedy(struct solver *s, const bool *keep)
{
    for (size_t i = 0; i < REMAT_EVICTIONS; i++) {
        if (s->best->fits && remat_deadline_expired(s->deadline))
            return;
        struct remat_eviction eviction = remat_evictions[i];
        eviction.keep = keep;
        struct remat_sequence found = remat_construct_greedy(s->arena, s->problem, s->budget,
                                                             &eviction, s->deadline, &s->looks);
        if (found.count)
            keep_if_better(s, &found);
        tell(s);
    }
}

/* The cut plans between keeping more and keeping less: recomputing the first values first, as far
 * as it takes to fit. */
static void try_cuts(struct solver *s)
{
    const struct remat_schedule_bound *b = &s->bound;
    uint32_t low = 0, high = b->best[0].i;
    while (b->keep_more && low < high && !remat_deadline_expired(s->deadline)) {
        uint32_t border = (low + high) / 2;
        struct remat_sequence sequence = remat_construct_cut(s->arena, s->problem, b->best[0],
                                                             b->keep_more, b->keep_less, border);
        if (keep_if_better(s, &sequence).peak <= s->budget)
            high = border;
        else
            low = border + 1;
    }
}

static void try_chain(struct solver *s)
{
    if (s->best->fits && s->best->result.time <= fmax(s->best->lower_bound, s->problem->least_time))
        return;
    if (!s->chain_sought)
        s->chain = remat_chain_find(s->arena, s->problem, s->budget, s->deadline);
    s->chain_sought = true;
    struct remat_sequence found = {0};
    if (s->chain)
        found = remat_chain_plan(s->arena, s->chain, s->budget);
    if (found.count)
        keep_if_better(s, &found);
}

/* Exhaustion, where the problem is small: an optimum, or a better bound. */
static void try_exact(struct solver *s, double states)
{
    struct remat_solution *best = s->best;
    if (is_good_enough(best) || states < 2)
        return;
    uint64_t limit = best->fits ? ticks_beyond_least(s) + 1 : UINT64_MAX;
    struct remat_exact exact = remat_exact_solve(s->arena, s->problem, s->budget, limit,
                                                 (uint32_t)fmin(states, STATES_MAX), s->deadline);
    if (exact.solved)
        keep_if_better(s, &exact.sequence);
    best->impossible |= exact.infeasible && !best->fits;
    if (exact.ticks != UINT64_MAX)
        raise_bound(s, exact.ticks);
}

/* Closes what is left of the gap from below. */
static void try_branches(struct solver *s)
{
    double size = (double)s->problem->node_count + s->problem->edge_count;
    double leaves = s->options->effort * LEAVES_WORK / (size * size);
    if (leaves < LEAVES_FEW) /* of large problems hardly anything is decided by so few */
        return;
    for (uint32_t i = 0; i < s->bound.best_count && s->best->fits && !is_good_enough(s->best); i++)
        raise_bound(s, remat_bound_branch(s->arena, s->problem, s->budget, s->bound.best[i],
                                          ticks_beyond_least(s), (uint32_t)fmin(leaves, LEAVES_MAX),
                                          s->deadline));
}

/* If nothing fits, the solution is the sequence of the least peak, for any budget. */
static void try_ladder(struct solver *s)
{
    if (!s->ladder_made && s->st == REMAT_OK)
        s->st =
            remat_descend(s->arena, s->problem, s->given,
                          s->ladder_effort * standard_moves(s->problem), s->deadline, &s->ladder);
    if (s->st != REMAT_OK)
        return;
    s->ladder_made = true;
    keep_if_better(s, &remat_descent_within(&s->ladder, s->budget)->sequence);
}

/* Annealing runs that differ in where they start, how hot (in times of all nodes), and what
 * exceeding the budget costs. */
enum start { GIVEN, BEST, LAST }; /* the given order, the best so far, the previous run's result */
struct annealing {
    double hot, pressure, share; /* share: of all moves */
    enum start start;
};
enum { RUNS = 3 };
static const struct annealing always[RUNS] = {
    {3e-5, 10, 0.2, BEST}, {3e-3, 10, 0.25, GIVEN}, {1e-4, 100, 0.1, LAST}};
static const struct annealing further[RUNS] = {
    {3e-3, 40, 0.25, GIVEN}, {1e-4, 400, 0.1, LAST}, {3e-4, 10, 0.1, BEST}};

/* Improves what fits. */
static void anneal(struct solver *s, const struct annealing *runs)
{
    struct remat_sequence last = *s->given;
    for (uint32_t i = 0; i < RUNS && s->best->fits; i++) {
        const struct annealing *run = &runs[i];
        const struct remat_sequence *from = run->start == BEST   ? &s->best->sequence
                                            : run->start == LAST ? &last
                                                                 : s->given;
        double moves = s->options->effort * run->share * standard_moves(s->problem);
        struct remat_search_options options = {.budget = s->budget,
                                               .moves = (uint64_t)fmin(1e15, moves),
                                               .events = REMAT_SEARCH_EVENTS,
                                               .seed = i + 1,
                                               .hot = run->hot,
                                               .cold = 1e-6,
                                               .pressure = run->pressure,
                                               .deadline = s->deadline};
        if (is_good_enough(s->best) || remat_deadline_expired(s->deadline))
            break;
        last = remat_search(s->arena, s->problem, from, &options);
        keep_if_better(s, &last);
    }
}

/* Plans without a search: greedy plans, cut plans, chains, small problems. Sets the bound. */
static void start(struct solver *s)
{
    const struct remat_problem *p = s->problem;
    s->looks.left = remat_construct_looks(p).left;
    try_greedy(s, NULL);
    s->bound =
        remat_bound_time(s->arena, p, s->budget, CUTS + CUTS_WORK / p->node_count, s->deadline);
    s->best->lower_bound = s->bound.time;
    tell(s);
    try_cuts(s);
    if (s->bound.keep_less && !remat_deadline_expired(s->deadline)) {
        try_greedy(s, s->bound.keep_less);
        try_greedy(s, s->bound.keep_more);
    }
    try_chain(s);
    try_exact(s, STATES_FEW);
    tell(s);
}

static void solve_one(struct solver *s)
{
    start(s);
    if (!s->best->fits)
        try_ladder(s);
    tell(s);
    anneal(s, always);
    tell(s);
    try_branches(s);
    anneal(s, further);
    tell(s);
    try_exact(s, s->options->effort * STATES_MANY);
}

remat_status remat_solve(struct remat_arena *arena, const struct remat_problem *p,
                         const uint64_t *budgets, uint32_t budget_count,
                         const struct remat_solve_options *options, struct remat_solution *out)
{
    for (uint32_t i = 1; i < budget_count; i++)
        assert(budgets[i] <= budgets[i - 1]);
    struct remat_solution given;
    struct solver s = {.arena = arena,
                       .problem = p,
                       .options = options,
                       .deadline = options->deadline,
                       .given = &given.sequence,
                       .ladder_effort = options->effort * (budget_count < 4 ? budget_count : 4),
                       .looks = remat_construct_looks(p)};
    s.st = remat_solve_given_order(arena, p, &given);
    for (uint32_t i = 0; i < budget_count && s.st == REMAT_OK; i++) {
        out[i] = (struct remat_solution){.lower_bound = given.lower_bound};
        s.budget = budgets[i];
        s.index = i;
        s.best = &out[i];
        keep_if_better(&s, &given.sequence);
        for (uint32_t j = 0; j < i; j++)
            keep_if_better(&s, &out[j].sequence);
        solve_one(&s);
    }
    for (uint32_t i = budget_count; i-- > 0 && s.st == REMAT_OK;) {
        s.budget = budgets[i];
        s.best = &out[i];
        if (i + 1 < budget_count)
            keep_if_better(&s, &out[i + 1].sequence); /* may be faster than what was found here */
        if (s.st == REMAT_OK)
            s.st = check_bound(arena->ctx, &out[i]);
    }
    return s.st;
}
