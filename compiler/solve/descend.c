/* SPDX-License-Identifier: Apache-2.0 */
/* Several times from the given order down the ladder, each rung from the schedule of the one above,
 * which is a little too large for it; where annealing does not make it fit, from the fastest that
 * fits or from greedy plans. Then straight from the given order to far below, further down in
 * smaller steps, and up again from the fastest that fits. */
#include "descend.h"

#include "construct.h"

#include <math.h>

enum { RUNGS = 24, RUNGS_LARGE = 8, CLOSER = 12, CLOSING_MOVES = 3 };
enum { PLUNGES = 4, PLUNGE_MOVES = 12 };
enum { EVENTS_LARGE = 20 }; /* of a move in a large graph */
#define COLD 0.05           /* in times of the mean node, as `hot` */

static const struct pass {
    double hot, pressure;
} passes[] = {{2, 10}, {1, 40}}, closing[] = {{0.3, 40}, {1, 100}}, plunging = {0.3, 40},
  rising = {1, 10};
enum { PASSES = sizeof passes / sizeof *passes };

struct descent {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    struct remat_deadline *deadline;
    remat_status st; /* the simulator's first failure */
    bool large;
    uint64_t low;             /* the largest working set: no schedule takes less */
    uint32_t rungs;           /* of a pass */
    struct remat_looks looks; /* of greedy plans */
    uint64_t moves, seed;     /* of one annealing run */
    struct pass pass;
    uint32_t last; /* the rung that the pass is at */
    struct remat_descent *out;
};

static void keep(struct descent *d, const struct remat_sequence *sequence)
{
    struct remat_descent *out = d->out;
    struct remat_rung rung = {.sequence = *sequence};
    if (d->st == REMAT_OK)
        d->st = remat_simulate(d->arena->ctx, d->problem, sequence->items, sequence->count,
                               &rung.result);
    REMAT_PUSH(d->arena, out, rung);
    if (rung.result.peak < out->items[out->least].result.peak)
        out->least = (uint32_t)out->count - 1;
}

static uint64_t least_peak(const struct descent *d)
{
    return d->out->items[d->out->least].result.peak;
}

static bool is_over(const struct descent *d)
{
    return d->st != REMAT_OK || remat_deadline_expired(d->deadline);
}

static void anneal(struct descent *d, uint64_t budget, const struct remat_sequence *from)
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
    struct remat_sequence found = remat_search(d->arena, d->problem, from, &search);
    keep(d, &found);
    d->last = (uint32_t)d->out->count - 1;
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
    const struct remat_rung *last = &d->out->items[d->last];
    if (last->result.peak <= budget && last->result.time <= d->problem->least_time)
        return;
    anneal(d, budget, &last->sequence);
    if (d->out->items[d->last].result.peak <= budget)
        return;
    if (least_peak(d) > budget)
        try_greedy(d, budget);
    if (least_peak(d) <= budget)
        anneal(d, budget, &remat_descent_within(d->out, budget)->sequence);
}

const struct remat_rung *remat_descent_within(const struct remat_descent *d, uint64_t budget)
{
    const struct remat_rung *best = NULL;
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].result.peak <= budget &&
            (!best || d->items[i].result.time < best->result.time))
            best = &d->items[i];
    return best;
}

const struct remat_rung *remat_descent_above(const struct remat_descent *d, uint64_t budget)
{
    const struct remat_rung *best = &d->items[0];
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].result.peak > budget && d->items[i].result.peak < best->result.peak)
            best = &d->items[i];
    return best;
}

/* Between budgets, on the way from the peak of the given order to the largest working set. */
static uint64_t step_of(const struct descent *d)
{
    return (d->out->items[0].result.peak - d->low) / d->rungs;
}

/* One pass. */
static void descend(struct descent *d)
{
    uint64_t budget = UINT64_MAX;
    d->last = 0;
    for (uint32_t i = d->rungs; i-- > 0 && least_peak(d) <= budget && !is_over(d);) {
        budget = d->low + step_of(d) * i;
        reach(d, budget);
    }
}

/* From the least peak on in steps, half as long after two tries, then from the longest again. */
static void close_in(struct descent *d)
{
    uint64_t longest = step_of(d) ? step_of(d) : 1, step = longest;
    for (uint32_t i = 0; i < CLOSER && !is_over(d); i++) {
        uint64_t peak = least_peak(d);
        step = step ? step : longest;
        if (peak < step)
            return;
        d->last = d->out->least;
        d->pass = closing[i % 2];
        reach(d, peak - step);
        if (least_peak(d) > peak - step && i % 2)
            step /= 2;
    }
}

/* From the given order straight to far below the least peak: another way round what stops steps. */
static void plunge(struct descent *d)
{
    d->pass = plunging;
    for (uint32_t i = 0; i < PLUNGES && !is_over(d); i++)
        anneal(d, d->low + (least_peak(d) - d->low) / 2, &d->out->items[0].sequence);
}

/* What fits in less may be a start for more. */
static void rise(struct descent *d)
{
    d->pass = rising;
    for (uint32_t i = 0; i < d->rungs && !is_over(d); i++) {
        uint64_t budget = d->low + step_of(d) * i;
        const struct remat_rung *best = remat_descent_within(d->out, budget);
        if (best && best->result.time > d->problem->least_time)
            anneal(d, budget, &best->sequence);
    }
}

remat_status remat_descend(struct remat_arena *arena, const struct remat_problem *p,
                           const struct remat_sequence *given, double moves,
                           struct remat_deadline *deadline, struct remat_descent *out)
{
    bool large = p->node_count > REMAT_DESCEND_LARGE;
    uint32_t count = large ? 1 : PASSES, rungs = large ? RUNGS_LARGE : RUNGS;
    moves /= (count + 1) * rungs + CLOSER * CLOSING_MOVES + PLUNGES * PLUNGE_MOVES;
    uint64_t once = (uint64_t)fmin(moves, 1e15);
    struct descent d = {.problem = p,
                        .arena = arena,
                        .deadline = deadline,
                        .large = large,
                        .rungs = rungs,
                        .looks = remat_construct_looks(p),
                        .moves = once,
                        .seed = 1,
                        .out = out};
    for (uint32_t v = 0; v < p->node_count; v++) {
        uint64_t bytes = remat_problem_working_set(p, v);
        d.low = bytes > d.low ? bytes : d.low;
    }
    *out = (struct remat_descent){0};
    keep(&d, given);
    for (uint32_t i = 0; i < count; i++) {
        d.pass = passes[i];
        descend(&d);
    }
    d.moves = once * PLUNGE_MOVES;
    plunge(&d);
    d.moves = once * CLOSING_MOVES;
    close_in(&d);
    d.moves = once;
    rise(&d);
    return d.st;
}
