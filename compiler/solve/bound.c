/* SPDX-License-Identifier: Apache-2.0 */
/* The best first run to look at: nodes spread over those under pressure, those under the most, then
 * around the best; then branch and bound on what is kept at that moment, since values are kept
 * whole. */
#include "bound.h"

#include "cut.h"

#include <math.h>

enum { WORK_MAX = 400000000 }; /* of finding candidates; of their flows */

/* --- which nodes to try: evenly spread over those under pressure, then around the best --- */

struct candidates {
    uint32_t *items, count;
    uint64_t *pressure;
    double *values; /* negative: not tried */
};

static void find_candidates(struct remat_cut *c, uint64_t budget, struct remat_arena *arena,
                            struct remat_deadline *deadline, struct candidates *out)
{
    REMAT_NEW(arena, out->items, c->problem->node_count);
    REMAT_NEW(arena, out->values, c->problem->node_count);
    REMAT_NEW(arena, out->pressure, c->problem->node_count);
    out->count = 0;
    const struct remat_problem *p = c->problem;
    uint64_t work = (uint64_t)p->node_count * (p->node_count + p->edge_count);
    uint32_t stride = (uint32_t)(1 + work / WORK_MAX);
    for (uint32_t k = stride / 2;
         k < p->node_count && !remat_deadline_count(deadline, p->node_count + p->edge_count);
         k += stride) {
        if (p->input_begin[k] == p->input_begin[k + 1] || p->fusible[k] ||
            !remat_cut_look(c, k, budget) || remat_cut_pressure(c) == 0)
            continue; /* without ancestors nothing is a repeat */
        out->pressure[out->count] = remat_cut_pressure(c);
        out->values[out->count] = -1;
        out->items[out->count++] = k;
    }
}

static void try_candidate(struct remat_cut *c, uint64_t budget, struct candidates *all, uint32_t i,
                          uint32_t *best)
{
    if (all->values[i] >= 0)
        return;
    remat_cut_look(c, all->items[i], budget);
    remat_cut_build(c);
    remat_cut_bound(c, &all->values[i]);
    if (*best == UINT32_MAX || all->values[i] > all->values[*best])
        *best = i;
}

/* The node under the most pressure that has not been tried. */
static uint32_t most_pressed(const struct candidates *all)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->values[i] < 0 && (most == UINT32_MAX || all->pressure[i] > all->pressure[most]))
            most = i;
    return most;
}

static bool is_over(struct remat_cut *c)
{
    return c->steps > WORK_MAX || remat_deadline_expired(c->deadline);
}

static void try_candidates(struct remat_cut *c, uint64_t budget, struct candidates *all,
                           uint32_t cuts_max, uint32_t *best)
{
    uint32_t stride = cuts_max ? (all->count + cuts_max - 1) / cuts_max : 0;
    *best = UINT32_MAX;
    for (uint32_t i = stride / 2; stride && i < all->count; i += stride) {
        if (is_over(c))
            return;
        try_candidate(c, budget, all, i, best);
    }
    for (uint32_t i = 0; stride > 1 && i < cuts_max / 4; i++) {
        uint32_t pressed = most_pressed(all);
        if (pressed == UINT32_MAX || is_over(c))
            return;
        try_candidate(c, budget, all, pressed, best);
    }
    for (; stride > 1 && *best != UINT32_MAX; stride = (stride + 1) / 2) {
        uint32_t middle = *best, reach = stride / 2;
        if (is_over(c))
            return;
        if (middle >= reach)
            try_candidate(c, budget, all, middle - reach, best);
        if (middle + reach < all->count)
            try_candidate(c, budget, all, middle + reach, best);
    }
}

static void list_best(const struct candidates *all, struct remat_bound *out)
{
    double values[REMAT_BOUND_NODES];
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t at = out->best_count;
        if (all->values[i] <= 0 || (at == REMAT_BOUND_NODES && all->values[i] <= values[at - 1]))
            continue;
        if (at == REMAT_BOUND_NODES)
            at--;
        else
            out->best_count++;
        for (; at > 0 && values[at - 1] < all->values[i]; at--) {
            values[at] = values[at - 1];
            out->best[at] = out->best[at - 1];
        }
        values[at] = all->values[i];
        out->best[at] = all->items[i];
    }
}

double remat_bound_from_ticks(const struct remat_problem *p, uint64_t ticks)
{
    double time = p->least_time + (double)ticks * p->tick;
    return p->tick == 1 ? time : time * (1 - 0x1p-36); /* sums of fractions are rounded */
}

/* The bound at the node again, for its two cuts. */
static void find_cuts(struct remat_cut *c, uint64_t budget, struct remat_bound *out)
{
    double units;
    remat_cut_look(c, out->node, budget);
    remat_cut_build(c);
    remat_cut_bound(c, &units);
    if (remat_deadline_expired(c->deadline))
        return;
    out->keep_more = c->keep_more;
    out->keep_less = c->keep_less;
}

void remat_bound_time(struct remat_arena *arena, const struct remat_problem *p, uint64_t budget,
                      uint32_t cuts_max, struct remat_deadline *deadline, struct remat_bound *out)
{
    struct remat_cut c;
    struct candidates all;
    uint32_t best;
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    *out = (struct remat_bound){.time = remat_bound_from_ticks(p, 0), .node = UINT32_MAX};
    remat_cut_create(arena, p, &c);
    c.deadline = deadline;
    find_candidates(&c, budget, own, deadline, &all);
    try_candidates(&c, budget, &all, cuts_max, &best);
    list_best(&all, out);
    if (best != UINT32_MAX && all.values[best] > 0) {
        out->node = all.items[best];
        if (!remat_deadline_expired(deadline))
            find_cuts(&c, budget, out);
        out->ticks = (uint64_t)ceil(ldexp(all.values[best], -c.shift));
        out->time = remat_bound_from_ticks(p, out->ticks);
    }
    remat_cut_destroy(&c);
    remat_scratch_close(own);
}

/* --- branch and bound --- */

struct leaf {
    double bound;    /* units */
    uint32_t parent; /* leaf it was made from, by fixing `value`; itself for the root */
    uint32_t value;
    enum remat_cut_fixed fixed;
    uint32_t branch; /* value to fix next; UINT32_MAX: none, the bound is final */
};

struct tree {
    struct leaf *leaves;
    uint32_t *heap, count, heap_count;
};

static void heap_push(struct tree *t, uint32_t leaf)
{
    uint32_t at = t->heap_count++;
    for (; at > 0 && t->leaves[t->heap[(at - 1) / 2]].bound > t->leaves[leaf].bound;
         at = (at - 1) / 2)
        t->heap[at] = t->heap[(at - 1) / 2];
    t->heap[at] = leaf;
}

static uint32_t heap_pop(struct tree *t)
{
    uint32_t top = t->heap[0], last = t->heap[--t->heap_count], at = 0, child;
    while ((child = 2 * at + 1) < t->heap_count) {
        if (child + 1 < t->heap_count &&
            t->leaves[t->heap[child + 1]].bound < t->leaves[t->heap[child]].bound)
            child++;
        if (t->leaves[t->heap[child]].bound >= t->leaves[last].bound)
            break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    t->heap[at] = last;
    return top;
}

/* The largest value that the two cuts beside the room disagree about. */
static uint32_t choose_branch(const struct remat_cut *c)
{
    uint32_t best = UINT32_MAX;
    const struct remat_problem *p = c->problem;
    for (uint32_t v = 0; v < p->node_count && !c->solved; v++)
        if (c->keep_more[v] && !c->keep_less[v] && c->fixed[v] == REMAT_CUT_OPEN &&
            !c->free_of_charge[v] && p->bytes[v] &&
            (best == UINT32_MAX || p->bytes[v] > p->bytes[best]))
            best = v;
    return best;
}

/* Bounds a new leaf, with everything fixed on the way to it. */
static void grow(struct remat_cut *c, struct tree *t, struct leaf leaf, uint64_t room)
{
    const struct remat_problem *p = c->problem;
    uint32_t at = t->count++;
    double bound;
    t->leaves[at] = leaf;
    memset(c->fixed, REMAT_CUT_OPEN, p->node_count * sizeof *c->fixed);
    c->room = room;
    for (uint32_t i = at; t->leaves[i].parent != i; i = t->leaves[i].parent) {
        uint32_t v = t->leaves[i].value;
        c->fixed[v] = (uint8_t)t->leaves[i].fixed;
        if (c->fixed[v] != REMAT_CUT_KEPT)
            continue;
        if (p->bytes[v] > c->room)
            return; /* nothing of that kind fits */
        c->room -= p->bytes[v];
    }
    remat_cut_bound(c, &bound);
    if (bound > t->leaves[at].bound)
        t->leaves[at].bound = bound;
    t->leaves[at].branch = choose_branch(c);
    heap_push(t, at);
}

void remat_bound_branch(struct remat_arena *arena, const struct remat_problem *p, uint64_t budget,
                        uint32_t node, uint64_t enough, uint32_t leaves_max,
                        struct remat_deadline *deadline, uint64_t *ticks)
{
    struct remat_cut c = {0};
    struct tree t = {0};
    double least = INFINITY; /* units */
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    *ticks = 0;
    remat_cut_create(own, p, &c);
    c.deadline = deadline;
    REMAT_NEW(own, t.leaves, (size_t)leaves_max + 3);
    REMAT_NEW(own, t.heap, (size_t)leaves_max + 3);
    if (!remat_cut_look(&c, node, budget))
        goto fail;
    uint64_t room = c.room;
    remat_cut_build(&c);
    grow(&c, &t, (struct leaf){0}, room);
    while (t.heap_count) {
        uint32_t at = heap_pop(&t);
        struct leaf leaf = t.leaves[at];
        least = leaf.bound;
        if (leaf.branch == UINT32_MAX || t.count > leaves_max ||
            ldexp(least, -c.shift) >= (double)enough || remat_deadline_expired(deadline))
            break;
        struct leaf child = {.bound = leaf.bound, .parent = at, .value = leaf.branch};
        child.fixed = REMAT_CUT_KEPT;
        grow(&c, &t, child, room);
        child.fixed = REMAT_CUT_DROPPED;
        grow(&c, &t, child, room);
    }
    if (least < INFINITY)
        *ticks = (uint64_t)ceil(ldexp(least, -c.shift));
fail:
    if (c.problem)
        remat_cut_destroy(&c);
    remat_scratch_close(own);
}
