/* For each budget a few annealing runs from the best sequences known; everything found at one
 * budget is a candidate at all others. The simulator has the last word on each. */
#include "solve.h"

#include "bound.h"

enum { RESTARTS = 3, CUTS = 48 };

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
    *out = (struct remat_solution){.lower_bound = p->total_time};
    REMAT_NEW(arena, order.items, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++)
        order.items[v] = v;
    order.count = order.capacity = p->node_count;
    REMAT_TRY(keep_if_better(arena, p, UINT64_MAX, &order, out));
fail:
    return st;
}

static uint64_t move_count(const struct remat_problem *p, double effort)
{
    double moves = effort * (600e3 + 800.0 * p->node_count) / RESTARTS;
    return moves < 1 ? 1 : moves > 1e15 ? (uint64_t)1e15 : (uint64_t)moves;
}

static remat_status solve_one(struct remat_arena *arena, const struct remat_problem *p,
                              uint64_t budget, const struct remat_solve_options *o,
                              struct remat_solution *best)
{
    remat_status st = REMAT_OK;
    struct remat_sequence start = best->sequence, found;
    for (uint64_t seed = 1; seed <= RESTARTS; seed++) {
        if (best->fits && best->result.time <= best->lower_bound)
            break;
        struct remat_search_options search = {.budget = budget,
                                              .moves = move_count(p, o->effort),
                                              .seed = seed,
                                              .hot = 3e-3,
                                              .cold = 2e-6,
                                              .deadline = o->deadline};
        REMAT_TRY(remat_search(arena, p, &start, &search, &found));
        REMAT_TRY(keep_if_better(arena, p, budget, &found, best));
    }
fail:
    return st;
}

remat_status remat_solve(struct remat_arena *arena, const struct remat_problem *p,
                         const uint64_t *budgets, uint32_t budget_count,
                         const struct remat_solve_options *options, struct remat_solution *out)
{
    remat_status st = REMAT_OK;
    struct remat_solution given;
    REMAT_TRY(remat_solve_given_order(arena, p, &given));
    for (uint32_t i = 0; i < budget_count; i++) {
        struct remat_bound bound;
        REMAT_TRY(remat_bound_time(arena, p, budgets[i], CUTS, options->deadline, &bound));
        out[i] = (struct remat_solution){0};
        REMAT_TRY(keep_if_better(arena, p, budgets[i], &given.sequence, &out[i]));
        for (uint32_t j = 0; j < i; j++)
            REMAT_TRY(keep_if_better(arena, p, budgets[i], &out[j].sequence, &out[i]));
        out[i].lower_bound = bound.time;
        REMAT_TRY(solve_one(arena, p, budgets[i], options, &out[i]));
    }
    for (uint32_t i = budget_count; i-- > 1;) /* what fits in less may be faster than it was here */
        REMAT_TRY(keep_if_better(arena, p, budgets[i - 1], &out[i].sequence, &out[i - 1]));
fail:
    return st;
}
