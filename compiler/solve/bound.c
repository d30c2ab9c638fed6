/* SPDX-License-Identifier: Apache-2.0 */
/* The best first run to look at: nodes spread over those under pressure, those under the most, then
 * around the best; then branch and bound on what is kept at that moment. */
#include "solvers.h"

#include "cut.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { WORK_MAX = 400000000 }; /* of finding candidates; of their flows */

/* --- which nodes to try: evenly spread over those under pressure, then around the best --- */

struct candidate {
    remat_problem_node node;
    uint64_t pressure;
    double bound; /* units; negative: not tried */
};

struct candidates {
    struct remat_cut cut;
    struct remat_arena *arena; /* of one network */
    struct remat_deadline *deadline;
    uint64_t budget, steps;
    struct candidate *items;
    size_t count, capacity, best; /* best: of those tried, if any */
};

static void find_candidates(struct candidates *all, struct remat_arena *arena)
{
    const struct remat_problem *p = all->cut.problem;
    uint64_t size = (uint64_t)p->node_count + p->edge_count;
    uint32_t stride = (uint32_t)(1 + p->node_count * size / WORK_MAX);
    for (uint32_t k = stride / 2; k < p->node_count && !remat_deadline_count(all->deadline, size);
         k += stride) {
        if (p->input_begin[k] == p->input_begin[k + 1] || p->fusible[k] ||
            !remat_cut_look(&all->cut, (remat_problem_node){k}, all->budget))
            continue; /* without ancestors nothing is a repeat */
        struct candidate found = {{k}, remat_cut_pressure(&all->cut), -1};
        if (found.pressure)
            REMAT_PUSH(arena, all, found);
    }
}

static struct remat_border_bracket bracket(struct remat_arena *arena, const struct remat_cut *cut,
                                           struct remat_deadline *deadline)
{
    remat_arena_reset(arena);
    remat_deadline_count(deadline, cut->problem->node_count + cut->problem->edge_count);
    return remat_border_bracket(remat_border_network(arena, &cut->border), cut->room, -INFINITY,
                                deadline);
}

static void try_candidate(struct candidates *all, size_t i)
{
    struct candidate *c = &all->items[i];
    if (c->bound >= 0)
        return;
    remat_cut_look(&all->cut, c->node, all->budget);
    struct remat_border_bracket found = bracket(all->arena, &all->cut, all->deadline);
    all->steps += found.steps;
    c->bound = fmax(found.least_ps, 0);
    if (c->bound > all->items[all->best].bound)
        all->best = i;
}

/* The one under the most pressure that has not been tried, if any. */
static void try_most_pressed(struct candidates *all)
{
    size_t most = all->count;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].bound < 0 &&
            (most == all->count || all->items[i].pressure > all->items[most].pressure))
            most = i;
    if (most < all->count)
        try_candidate(all, most);
}

static bool is_over(const struct candidates *all)
{
    return all->steps > WORK_MAX || remat_deadline_expired(all->deadline);
}

static void try_candidates(struct candidates *all, uint32_t cuts_max)
{
    size_t stride = (all->count + cuts_max - 1) / cuts_max;
    for (size_t i = stride / 2; i < all->count && !is_over(all); i += stride)
        try_candidate(all, i);
    for (uint32_t i = 0; stride > 1 && i < cuts_max / 4 && !is_over(all); i++)
        try_most_pressed(all);
    for (; stride > 1 && !is_over(all); stride = (stride + 1) / 2) {
        size_t middle = all->best, reach = stride / 2;
        if (middle >= reach)
            try_candidate(all, middle - reach);
        if (middle + reach < all->count)
            try_candidate(all, middle + reach);
    }
}

/* The largest first; of equal ones the first node. */
static int compare_bounds(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->bound != y->bound ? (x->bound < y->bound) - (x->bound > y->bound)
                                : (x->node.i > y->node.i) - (x->node.i < y->node.i);
}

double remat_bound_from_ticks(const struct remat_problem *p, uint64_t ticks)
{
    double time = p->least_time + (double)ticks * p->tick;
    return p->tick == 1 ? time : time * (1 - 0x1p-36); /* sums of fractions are rounded */
}

static uint64_t ticks_of(const struct remat_cut *cut, double units)
{
    return (uint64_t)ceil(ldexp(units, -cut->shift));
}

struct remat_schedule_bound remat_bound_time(struct remat_arena *arena,
                                             const struct remat_problem *p, uint64_t budget,
                                             uint32_t cuts_max, struct remat_deadline *deadline)
{
    assert(cuts_max > 0);
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    struct remat_schedule_bound out = {0};
    struct candidates all = {.cut = remat_cut_create(own, p),
                             .arena = remat_scratch_open(arena->ctx),
                             .deadline = deadline,
                             .budget = budget};
    find_candidates(&all, own);
    try_candidates(&all, cuts_max);
    if (all.count)
        qsort(all.items, all.count, sizeof *all.items, compare_bounds);
    for (; out.best_count < REMAT_BOUND_NODES && out.best_count < all.count; out.best_count++) {
        if (all.items[out.best_count].bound <= 0)
            break;
        out.best[out.best_count] = all.items[out.best_count].node;
    }
    if (out.best_count)
        out.ticks = ticks_of(&all.cut, all.items[0].bound);
    out.time = remat_bound_from_ticks(p, out.ticks);
    if (out.best_count && !remat_deadline_expired(deadline)) {
        remat_cut_look(&all.cut, out.best[0], budget); /* again, for its two cuts */
        struct remat_border_bracket found = bracket(all.arena, &all.cut, deadline);
        if (!remat_deadline_expired(deadline)) {
            out.keep_more = remat_copy(arena, found.above.keep, p->node_count, sizeof(bool));
            out.keep_less = remat_copy(arena, found.below.keep, p->node_count, sizeof(bool));
        }
    }
    remat_scratch_close(all.arena);
    remat_scratch_close(own);
    return out;
}

uint64_t remat_bound_branch(struct remat_arena *arena, const struct remat_problem *p,
                            uint64_t budget, remat_problem_node node, uint64_t enough,
                            uint32_t leaves_max, struct remat_deadline *deadline)
{
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    struct remat_cut cut = remat_cut_create(own, p);
    double least = 0; /* units */
    if (remat_cut_look(&cut, node, budget))
        least = remat_border_branch(own, &cut.border, cut.room, ldexp((double)enough, cut.shift),
                                    leaves_max, deadline);
    remat_scratch_close(own);
    return ticks_of(&cut, fmax(least, 0));
}
