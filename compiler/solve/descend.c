/* SPDX-License-Identifier: Apache-2.0 */
/* Several times from the given order down the ladder, each rung from the schedule of the one above,
 * which is a little too large for it; where annealing does not make it fit, from the fastest that
 * fits or from greedy plans. Then straight from the given order to far below, further down in
 * smaller steps, and up again from the fastest that fits. */
#include "descend.h"

#include "construct.h"

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
    struct remat_looks looks; /* of greedy plans */
    uint64_t moves, seed;     /* of one annealing run */
    struct pass pass;
    uint32_t last; /* the rung that the pass is at */
    struct remat_descent *out;
};

static remat_status keep(struct descent *d, const struct remat_sequence *sequence)
{
    remat_status st = REMAT_OK;
    struct remat_descent *out = d->out;
    struct remat_rung rung = {.sequence = *sequence};
    REMAT_TRY(
        remat_simulate(d->arena->ctx, d->problem, sequence->items, sequence->count, &rung.result));
    REMAT_PUSH(d->arena, out, rung);
    if (rung.result.peak < out->items[out->least].result.peak)
        out->least = (uint32_t)out->count - 1;
fail:
    return st;
}

static bool fits(const struct descent *d, uint64_t budget)
{
    return d->out->items[d->out->least].result.peak <= budget;
}

static remat_status anneal(struct descent *d, uint64_t budget, const struct remat_sequence *from)
{
    remat_status st = REMAT_OK;
    struct remat_sequence found;
    double node = 1.0 / d->problem->node_count;
    struct remat_search_options search = {
        .budget = budget,
        .moves = d->moves,
        .events = d->problem->node_count > REMAT_DESCEND_LARGE ? EVENTS_LARGE : REMAT_SEARCH_EVENTS,
        .seed = d->seed++,
        .hot = d->pass.hot * node,
        .cold = COLD * node,
        .pressure = d->pass.pressure,
        .deadline = d->deadline};
    remat_search(d->arena, d->problem, from, &search, &found);
    REMAT_TRY(keep(d, &found));
    d->last = (uint32_t)d->out->count - 1;
fail:
    return st;
}

static remat_status try_greedy(struct descent *d, uint64_t budget)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < REMAT_EVICTIONS && !remat_deadline_expired(d->deadline); i++) {
        struct remat_sequence sequence;
        bool ok;
        remat_construct_greedy(d->arena, d->problem, budget, &remat_evictions[i], d->deadline,
                               &d->looks, &sequence, &ok);
        if (ok)
            REMAT_TRY(keep(d, &sequence));
        if (ok && d->problem->node_count > REMAT_DESCEND_LARGE)
            break;
    }
fail:
    return st;
}

static remat_status reach(struct descent *d, uint64_t budget)
{
    remat_status st = REMAT_OK;
    const struct remat_rung *last = &d->out->items[d->last];
    if (last->result.peak <= budget && last->result.time <= d->problem->least_time)
        return REMAT_OK;
    REMAT_TRY(anneal(d, budget, &last->sequence));
    if (d->out->items[d->last].result.peak <= budget)
        return REMAT_OK;
    if (!fits(d, budget))
        REMAT_TRY(try_greedy(d, budget));
    if (fits(d, budget))
        REMAT_TRY(anneal(d, budget, &remat_descent_within(d->out, budget)->sequence));
fail:
    return st;
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

/* The largest working set: no schedule takes less. */
static uint64_t least_possible(const struct remat_problem *p)
{
    uint64_t most = 0;
    for (uint32_t v = 0; v < p->node_count; v++) {
        uint64_t bytes = remat_problem_working_set(p, v);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* One pass. */
static remat_status descend(struct descent *d, uint64_t low, uint32_t rungs)
{
    remat_status st = REMAT_OK;
    uint64_t step = (d->out->items[0].result.peak - low) / rungs, budget = UINT64_MAX;
    d->last = 0;
    for (uint32_t i = rungs; i-- > 0 && fits(d, budget) && !remat_deadline_expired(d->deadline);) {
        budget = low + step * i;
        REMAT_TRY(reach(d, budget));
    }
fail:
    return st;
}

/* From the least peak on in steps, half as long after two tries, then from the longest again. */
static remat_status close_in(struct descent *d, uint64_t longest)
{
    remat_status st = REMAT_OK;
    uint64_t step = longest;
    for (uint32_t i = 0; i < CLOSER && !remat_deadline_expired(d->deadline); i++) {
        uint64_t peak = d->out->items[d->out->least].result.peak;
        step = step ? step : longest ? longest : 1;
        if (peak < step)
            return REMAT_OK;
        d->last = d->out->least;
        d->pass = closing[i % 2];
        REMAT_TRY(reach(d, peak - step));
        if (!fits(d, peak - step) && i % 2)
            step /= 2;
    }
fail:
    return st;
}

/* From the given order straight to far below the least peak: another way round what stops steps. */
static remat_status plunge(struct descent *d, uint64_t low)
{
    remat_status st = REMAT_OK;
    d->pass = plunging;
    for (uint32_t i = 0; i < PLUNGES && !remat_deadline_expired(d->deadline); i++) {
        uint64_t peak = d->out->items[d->out->least].result.peak;
        REMAT_TRY(anneal(d, low + (peak - low) / 2, &d->out->items[0].sequence));
    }
fail:
    return st;
}

/* What fits in less may be a start for more. */
static remat_status rise(struct descent *d, uint64_t low, uint32_t rungs)
{
    remat_status st = REMAT_OK;
    uint64_t step = (d->out->items[0].result.peak - low) / rungs;
    for (uint32_t i = 0; i < rungs && !remat_deadline_expired(d->deadline); i++) {
        const struct remat_rung *best = remat_descent_within(d->out, low + step * i);
        if (best && best->result.time > d->problem->least_time)
            REMAT_TRY(anneal(d, low + step * i, &best->sequence));
    }
fail:
    return st;
}

remat_status remat_descend(struct remat_arena *arena, const struct remat_problem *p,
                           const struct remat_sequence *given, double moves,
                           struct remat_deadline *deadline, struct remat_descent *out)
{
    remat_status st = REMAT_OK;
    bool large = p->node_count > REMAT_DESCEND_LARGE;
    uint32_t count = large ? 1 : PASSES, rungs = large ? RUNGS_LARGE : RUNGS;
    moves /= (count + 1) * rungs + CLOSER * CLOSING_MOVES + PLUNGES * PLUNGE_MOVES;
    struct descent d = {.problem = p,
                        .arena = arena,
                        .deadline = deadline,
                        .looks = remat_construct_looks(p),
                        .moves = moves < 1e15 ? (uint64_t)moves : (uint64_t)1e15,
                        .seed = 1,
                        .out = out};
    uint64_t low = least_possible(p);
    *out = (struct remat_descent){0};
    REMAT_TRY(keep(&d, given));
    for (uint32_t i = 0; i < count; i++) {
        d.pass = passes[i];
        REMAT_TRY(descend(&d, low, rungs));
    }
    uint64_t once = d.moves;
    d.moves = once * PLUNGE_MOVES;
    REMAT_TRY(plunge(&d, low));
    d.moves = once * CLOSING_MOVES;
    REMAT_TRY(close_in(&d, (out->items[0].result.peak - low) / rungs));
    d.moves = once;
    d.pass = rising;
    REMAT_TRY(rise(&d, low, rungs));
fail:
    return st;
}
