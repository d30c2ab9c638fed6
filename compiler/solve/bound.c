/* SPDX-License-Identifier: Apache-2.0 */
/* The best first run to look at: nodes spread over those under pressure, those under the most, then
 * around the best; then branch and bound on what is kept at that moment, since values are kept
 * whole. */
#include "bound.h"

#include "cut.h"
#include "heap.h"

#include <math.h>

enum { WORK_MAX = 400000000 }; /* of finding candidates; of their flows */

/* --- which nodes to try: evenly spread over those under pressure, then around the best --- */

struct candidate {
    uint32_t node;
    uint64_t pressure;
    double bound; /* units; negative: not tried */
};

struct candidates {
    struct remat_cut cut;
    uint64_t budget;
    struct candidate *items, *best; /* best: NULL before the first is tried */
    size_t count, capacity;
};

static void find_candidates(struct candidates *all, struct remat_arena *arena)
{
    const struct remat_problem *p = all->cut.problem;
    uint64_t size = (uint64_t)p->node_count + p->edge_count;
    uint32_t stride = (uint32_t)(1 + p->node_count * size / WORK_MAX);
    for (uint32_t k = stride / 2;
         k < p->node_count && !remat_deadline_count(all->cut.deadline, size); k += stride) {
        if (p->input_begin[k] == p->input_begin[k + 1] || p->fusible[k] ||
            !remat_cut_look(&all->cut, k, all->budget))
            continue; /* without ancestors nothing is a repeat */
        struct candidate found = {k, remat_cut_pressure(&all->cut), -1};
        if (found.pressure)
            REMAT_PUSH(arena, all, found);
    }
}

static double bound_at(struct candidates *all, uint32_t node)
{
    remat_cut_look(&all->cut, node, all->budget);
    return remat_cut_bound(&all->cut);
}

static void try_candidate(struct candidates *all, size_t i)
{
    struct candidate *c = &all->items[i];
    if (c->bound >= 0)
        return;
    c->bound = bound_at(all, c->node);
    if (!all->best || c->bound > all->best->bound)
        all->best = c;
}

/* The one under the most pressure that has not been tried; `count` without any. */
static size_t most_pressed(const struct candidates *all)
{
    size_t most = all->count;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].bound < 0 &&
            (most == all->count || all->items[i].pressure > all->items[most].pressure))
            most = i;
    return most;
}

static bool is_over(const struct candidates *all)
{
    return all->cut.steps > WORK_MAX || remat_deadline_expired(all->cut.deadline);
}

static void try_candidates(struct candidates *all, uint32_t cuts_max)
{
    size_t stride = (all->count + cuts_max - 1) / cuts_max;
    for (size_t i = stride / 2; i < all->count; i += stride) {
        if (is_over(all))
            return;
        try_candidate(all, i);
    }
    for (uint32_t i = 0; stride > 1 && i < cuts_max / 4; i++) {
        size_t pressed = most_pressed(all);
        if (pressed == all->count || is_over(all))
            return;
        try_candidate(all, pressed);
    }
    for (; stride > 1; stride = (stride + 1) / 2) {
        size_t middle = (size_t)(all->best - all->items), reach = stride / 2;
        if (is_over(all))
            return;
        if (middle >= reach)
            try_candidate(all, middle - reach);
        if (middle + reach < all->count)
            try_candidate(all, middle + reach);
    }
}

/* The largest first; of equal ones the one found first. */
static void list_best(const struct candidates *all, struct remat_bound *out)
{
    const struct candidate *last = NULL;
    for (; out->best_count < REMAT_BOUND_NODES; out->best_count++) {
        const struct candidate *best = NULL;
        for (size_t i = 0; i < all->count; i++) {
            const struct candidate *c = &all->items[i];
            if (c->bound > (best ? best->bound : 0) &&
                (!last || c->bound < last->bound || (c->bound == last->bound && c > last)))
                best = c;
        }
        if (!best)
            return;
        out->best[out->best_count] = best->node;
        last = best;
    }
}

double remat_bound_from_ticks(const struct remat_problem *p, uint64_t ticks)
{
    double time = p->least_time + (double)ticks * p->tick;
    return p->tick == 1 ? time : time * (1 - 0x1p-36); /* sums of fractions are rounded */
}

struct remat_bound remat_bound_time(struct remat_arena *arena, const struct remat_problem *p,
                                    uint64_t budget, uint32_t cuts_max,
                                    struct remat_deadline *deadline)
{
    struct candidates all = {.budget = budget};
    struct remat_bound out = {.time = remat_bound_from_ticks(p, 0), .node = UINT32_MAX};
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    remat_cut_create(arena, p, deadline, &all.cut);
    find_candidates(&all, own);
    try_candidates(&all, cuts_max);
    list_best(&all, &out);
    if (out.best_count) {
        out.node = all.best->node;
        out.ticks = (uint64_t)ceil(ldexp(all.best->bound, -all.cut.shift));
        out.time = remat_bound_from_ticks(p, out.ticks);
        if (!remat_deadline_expired(deadline))
            bound_at(&all, out.node); /* again, for its two cuts */
        if (!remat_deadline_expired(deadline)) {
            out.keep_more = all.cut.keep_more;
            out.keep_less = all.cut.keep_less;
        }
    }
    remat_cut_destroy(&all.cut);
    remat_scratch_close(own);
    return out;
}

/* --- branch and bound --- */

struct leaf {
    double bound;              /* units */
    const struct leaf *parent; /* it was made from, by fixing `value`; NULL for the root */
    uint32_t value;
    enum remat_cut_fixed fixed;
    uint32_t branch; /* value to fix next; UINT32_MAX: none, the bound is final */
};

static bool comes_before(struct leaf *const *a, struct leaf *const *b)
{
    return (*a)->bound < (*b)->bound;
}
REMAT_HEAP(leaf_queue, struct leaf *, comes_before);

/* The largest value that the two cuts beside the room disagree about. */
static uint32_t choose_branch(const struct remat_cut *c)
{
    const struct remat_problem *p = c->problem;
    uint32_t best = UINT32_MAX;
    for (uint32_t v = 0; v < p->node_count && !c->solved; v++)
        if (c->keep_more[v] && !c->keep_less[v] && c->fixed[v] == REMAT_CUT_OPEN &&
            !c->free_of_charge[v] && p->bytes[v] &&
            (best == UINT32_MAX || p->bytes[v] > p->bytes[best]))
            best = v;
    return best;
}

struct tree {
    struct remat_cut cut;
    struct remat_arena *arena;
    uint64_t room; /* with nothing fixed */
    struct leaf_queue queue;
    uint32_t count; /* of leaves so far */
};

/* Bounds a new leaf, with everything fixed on the way to it. */
static void grow(struct tree *t, struct leaf leaf)
{
    struct remat_cut *c = &t->cut;
    const struct remat_problem *p = c->problem;
    t->count++;
    memset(c->fixed, REMAT_CUT_OPEN, p->node_count * sizeof *c->fixed);
    c->room = t->room;
    for (const struct leaf *l = &leaf; l->parent; l = l->parent) {
        c->fixed[l->value] = (uint8_t)l->fixed;
        if (l->fixed != REMAT_CUT_KEPT)
            continue;
        if (p->bytes[l->value] > c->room)
            return; /* nothing of that kind fits */
        c->room -= p->bytes[l->value];
    }
    leaf.bound = fmax(leaf.bound, remat_cut_bound(c));
    leaf.branch = choose_branch(c);
    leaf_queue_push(t->arena, &t->queue, remat_copy(t->arena, &leaf, 1, sizeof leaf));
}

uint64_t remat_bound_branch(struct remat_arena *arena, const struct remat_problem *p,
                            uint64_t budget, uint32_t node, uint64_t enough, uint32_t leaves_max,
                            struct remat_deadline *deadline)
{
    struct tree t = {.arena = remat_scratch_open(arena->ctx)};
    double least = 0; /* units */
    remat_cut_create(t.arena, p, deadline, &t.cut);
    if (remat_cut_look(&t.cut, node, budget)) {
        t.room = t.cut.room;
        grow(&t, (struct leaf){0});
    }
    while (t.queue.count) {
        const struct leaf *leaf = leaf_queue_take(&t.queue, 0);
        least = leaf->bound;
        if (leaf->branch == UINT32_MAX || t.count > leaves_max ||
            ldexp(least, -t.cut.shift) >= (double)enough || remat_deadline_expired(deadline))
            break;
        struct leaf child = {.bound = least, .parent = leaf, .value = leaf->branch};
        child.fixed = REMAT_CUT_KEPT;
        grow(&t, child);
        child.fixed = REMAT_CUT_DROPPED;
        grow(&t, child);
    }
    uint64_t ticks = (uint64_t)ceil(ldexp(least, -t.cut.shift));
    remat_cut_destroy(&t.cut);
    remat_scratch_close(t.arena);
    return ticks;
}
