/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers the budget in steps, several times over from the given order. Each step starts from the
 * schedule of the one before, which is a little too large for it; where annealing does not make it
 * fit, from the fastest schedule that fits or from greedy plans. Then goes from the given order far
 * down at once, and further down in smaller steps. */
#include "solvers.h"

#include <math.h>

enum { LARGE = 1000 /* nodes */, STEPS = 24, STEPS_LARGE = 8, EVENTS_LARGE = 20 };
enum { CLOSER = 12, CLOSING_MOVES = 3, PLUNGES = 4, PLUNGE_MOVES = 12 };
#define STEP_SHARE       (1 / 78.0) /* of all moves */
#define STEP_SHARE_LARGE (1 / 77.0)
#define COLD             0.05 /* in times of the mean node, as `hot` */

static const struct pass {
    double hot, pressure;
} passes[] = {{2, 10}, {1, 40}}, closing[] = {{0.3, 40}, {1, 100}}, plunging = {0.3, 40};
enum { PASSES = sizeof passes / sizeof *passes };

struct descent {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    struct remat_deadline *deadline;
    remat_status st; /* the simulator's first failure */
    bool large;
    struct remat_looks looks; /* of greedy plans */
    uint64_t moves, seed;     /* of one annealing run */
    struct pass pass;
    size_t last; /* the step that the pass is at */
    struct remat_descent *out;
};

static void keep(struct descent *d, const struct remat_sequence *sequence)
{
    struct remat_descent_step added = {.sequence = *sequence};
    if (d->st == REMAT_OK)
        d->st = remat_simulate(d->arena->ctx, d->problem, sequence->items, sequence->count,
                               &added.result);
    REMAT_PUSH(d->arena, d->out, added);
}

const struct remat_descent_step *remat_descent_within(const struct remat_descent *d,
                                                      uint64_t budget)
{
    const struct remat_descent_step *best = &d->items[0];
    for (size_t i = 1; i < d->count; i++)
        if (remat_is_better(&d->items[i].result, &best->result, budget))
            best = &d->items[i];
    return best;
}

static bool is_over(const struct descent *d)
{
    return d->st != REMAT_OK || remat_deadline_expired(d->deadline);
}

/* Whether the result, which becomes the step that the pass is at, fits. */
static bool anneal(struct descent *d, uint64_t budget, struct remat_sequence from)
{
    double node = 1.0 / d->problem->node_count;
    struct remat_search_options search = {.budget = budget,
                                          .moves = d->moves,
                                          .events = d->large ? EVENTS_LARGE : REMAT_SEARCH_EVENTS,
                                          .seed = d->seed++,
                                          .hot = d->pass.hot * node,
                                          .cold = COLD * node,
                                          .pressure = d->pass.pressure,
                                          .deadline = d->deadline};
    struct remat_sequence found = remat_search(d->arena, d->problem, &from, &search);
    keep(d, &found);
    d->last = d->out->count - 1;
    return d->out->items[d->last].result.peak <= budget;
}

static void try_greedy(struct descent *d, uint64_t budget)
{
    for (uint32_t i = 0; i < REMAT_EVICTIONS && !is_over(d); i++) {
        struct remat_sequence found = remat_construct_greedy(
            d->arena, d->problem, budget, &remat_evictions[i], d->deadline, &d->looks);
        if (found.count)
            keep(d, &found);
        if (found.count && d->large)
            break;
    }
}

static void reach(struct descent *d, uint64_t budget)
{
    const struct remat_descent_step last = d->out->items[d->last];
    if (last.result.peak <= budget && last.result.time <= d->problem->least_time)
        return;
    if (anneal(d, budget, last.sequence))
        return;
    if (remat_descent_within(d->out, budget)->result.peak > budget)
        try_greedy(d, budget);
    const struct remat_descent_step best = *remat_descent_within(d->out, budget);
    if (best.result.peak <= budget)
        anneal(d, budget, best.sequence);
}

/* Jumps from the given order far below the least peak, past local minima that stop small steps. */
static void plunge(struct descent *d, uint64_t low)
{
    d->pass = plunging;
    for (uint32_t i = 0; i < PLUNGES && !is_over(d); i++) {
        uint64_t least = remat_descent_within(d->out, 0)->result.peak;
        anneal(d, low + (least - low) / 2, d->out->items[0].sequence);
    }
}

/* Steps down from the least peak. Halves the step after two tries, then restarts at the longest. */
static void close_in(struct descent *d, uint64_t longest)
{
    uint64_t step = longest;
    for (uint32_t i = 0; i < CLOSER && !is_over(d); i++) {
        const struct remat_descent_step *least = remat_descent_within(d->out, 0);
        uint64_t peak = least->result.peak;
        step = step ? step : longest;
        if (peak < step)
            return;
        d->last = (size_t)(least - d->out->items);
        d->pass = closing[i % 2];
        reach(d, peak - step);
        if (remat_descent_within(d->out, 0)->result.peak > peak - step && i % 2)
            step /= 2;
    }
}

remat_status remat_descend(struct remat_arena *arena, const struct remat_problem *p,
                           const struct remat_sequence *given, double moves,
                           struct remat_deadline *deadline, struct remat_descent *out)
{
    bool large = p->node_count > LARGE;
    uint32_t pass_count = large ? 1 : PASSES, steps = large ? STEPS_LARGE : STEPS;
    struct descent d = {.problem = p,
                        .arena = arena,
                        .deadline = deadline,
                        .large = large,
                        .looks = remat_construct_looks(p),
                        .moves =
                            (uint64_t)fmin(moves * (large ? STEP_SHARE_LARGE : STEP_SHARE), 1e15),
                        .seed = 1,
                        .out = out};
    uint64_t low = 0; /* the largest working set: no schedule takes less */
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        uint64_t bytes = remat_problem_working_set(p, v);
        low = bytes > low ? bytes : low;
    }
    *out = (struct remat_descent){0};
    keep(&d, given);
    uint64_t step = (out->items[0].result.peak - low) / steps, budget = UINT64_MAX;
    for (uint32_t pass = 0; pass < pass_count; pass++, budget = UINT64_MAX) {
        d.pass = passes[pass];
        d.last = 0;
        for (uint32_t i = steps; i-- > 0 && !is_over(&d); reach(&d, budget)) {
            if (remat_descent_within(out, 0)->result.peak > budget)
                break;
            budget = low + step * i;
        }
    }
    uint64_t moves_of_step = d.moves;
    d.moves = moves_of_step * PLUNGE_MOVES;
    plunge(&d, low);
    d.moves = moves_of_step * CLOSING_MOVES;
    close_in(&d, step ? step : 1);
    return d.st;
}
