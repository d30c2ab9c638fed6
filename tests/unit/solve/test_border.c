/* SPDX-License-Identifier: Apache-2.0 */
/* Border problems of up to nine tasks against every choice there is, priced from the definitions:
 * the cut is the optimum at every price, its bound is never above it, the hull's corners are the
 * optimum over what they keep, and the bound for a number of bytes is never above the best choice
 * that keeps so little. Some items have up to three ways to be kept. What each item changes in a
 * choice is the difference of two whole choices. */
#include "border.h"
#include "decision.h"
#include "program.h"
#include "support.h"

#include <math.h>

enum {
    PROBLEMS = 1500,
    TASKS = 9,
    ITEMS = 12,
    EDGES = 48,
    CHARGES = 6,
    ARCS = 40,
    WAY_ITEMS = 3,
    UNITS = 9 * ITEMS + 1
};

struct sample {
    struct remat_border border;
    struct remat_border_item items[ITEMS];
    struct remat_border_task tasks[TASKS];
    struct remat_border_way ways[2 * WAY_ITEMS];
    remat_item inputs[EDGES];
    struct remat_border_arc arcs[ARCS];
    int64_t charge_ps[CHARGES];
    double
        cheapest[UNITS]; /* by what is kept, in 256 bytes: the least cost; infinite without one */
};

/* Rules lead from tasks and earlier charges to charges; other arcs from anything to anything. */
static void make_arcs(struct test *t, struct sample *s)
{
    struct remat_border *b = &s->border;
    uint32_t nodes = b->item_count + b->task_count;
    for (uint32_t e = 0; e < b->charge_count; e++, nodes++) {
        s->charge_ps[e] = draw(t, 0, 20);
        for (uint32_t k = draw(t, 1, 3); k > 0; k--)
            s->arcs[b->arc_count++] =
                (struct remat_border_arc){{b->item_count + draw(t, 0, nodes - b->item_count - 1)},
                                          {nodes},
                                          REMAT_BORDER_RULE};
    }
    for (uint32_t k = draw(t, 0, 12); k > 0; k--) {
        uint32_t from = draw(t, 0, nodes - 1), to = b->item_count + draw(t, 0, b->task_count - 1);
        if (from != to)
            s->arcs[b->arc_count++] =
                (struct remat_border_arc){{from}, {to}, (int64_t)draw(t, 1, 20)};
    }
}

/* Numbers of ways are in no order, and some keep nothing here. */
static void make_ways(struct test *t, struct sample *s, struct remat_border_item *item)
{
    struct remat_border *b = &s->border;
    item->way_begin = b->way_count;
    for (uint32_t k = draw(t, 1, 2); k > 0; k--) {
        struct remat_border_way *way = &s->ways[b->way_count++];
        way->bytes = draw(t, 0, item->bytes / 256) * 256;
        way->ps = (int64_t)draw(t, 0, k == 1 ? 20 : 200);
        way->action = (uint8_t)(3 * k - 2);
    }
    item->way_end = b->way_count;
}

/* Items of task t come before those of task t + 1, so inputs are earlier items. */
static void make_sample(struct test *t, struct sample *s)
{
    uint32_t input_count = 0, items = 0, tasks = draw(t, 1, TASKS), charges = draw(t, 0, CHARGES);
    uint32_t way_items = 0;
    memset(s, 0, sizeof *s);
    for (uint32_t k = 0; k < tasks; k++) {
        struct remat_border_task *task = &s->tasks[k];
        task->cost_ps = (int64_t)draw(t, 0, 60) - 15;
        task->again_ps = (int64_t)draw(t, 0, 20);
        task->input_begin = input_count;
        for (uint32_t i = 0; i < items; i++)
            if (draw(t, 0, 2) == 0 && input_count < EDGES)
                s->inputs[input_count++].i = i;
        task->input_end = input_count;
        for (uint32_t o = draw(t, 1, 2); o > 0 && items < ITEMS; o--, items++) {
            struct remat_border_item *item = &s->items[items];
            item->bytes = draw(t, 0, 9) * 256;
            item->task.i = k;
            item->wanted = draw(t, 0, 1);
            item->kept = draw(t, 0, 9) == 0;
            item->recomputed = draw(t, 0, 9) == 0;
            if (tasks <= 6 && draw(t, 0, 3) == 0 && way_items++ < WAY_ITEMS)
                make_ways(t, s, item);
        }
        if (items == ITEMS) {
            tasks = k + 1;
            break;
        }
    }
    s->border = (struct remat_border){.item_count = items,
                                      .way_count = s->border.way_count,
                                      .ways = s->ways,
                                      .task_count = tasks,
                                      .charge_count = charges,
                                      .items = s->items,
                                      .tasks = s->tasks,
                                      .inputs = s->inputs,
                                      .charge_ps = s->charge_ps,
                                      .arcs = s->arcs,
                                      .constant_ps = (int64_t)draw(t, 0, 40) - 20};
    make_arcs(t, s);
}

static bool runs(uint32_t choice, uint32_t task)
{
    return choice >> task & 1;
}

/* Cost and kept bytes of a set of tasks, with each item kept in place or in the way of that number;
 * false when it is no choice. */
static bool price_choice(const struct sample *s, uint32_t choice, const uint8_t *ways,
                         int64_t *cost, uint64_t *bytes)
{
    const struct remat_border *b = &s->border;
    bool holds[ITEMS + TASKS + CHARGES] = {0};
    *cost = b->constant_ps;
    *bytes = 0;
    for (uint32_t t = 0; t < b->task_count; t++) {
        holds[b->item_count + t] = runs(choice, t);
        *cost += runs(choice, t) ? s->tasks[t].cost_ps : 0;
    }
    for (uint32_t i = 0; i < b->item_count; i++) {
        holds[i] = s->items[i].wanted;
        for (uint32_t t = 0; t < b->task_count; t++)
            for (uint32_t e = s->tasks[t].input_begin; e < s->tasks[t].input_end; e++)
                holds[i] |= runs(choice, t) && s->inputs[e].i == i;
        bool again = runs(choice, s->items[i].task.i);
        if ((again && s->items[i].kept) ||
            (holds[i] && !again && s->items[i].recomputed && !s->items[i].kept))
            return false;
        const struct remat_border_way *way = NULL;
        for (uint32_t w = s->items[i].way_begin; w < s->items[i].way_end; w++)
            way = s->ways[w].action == ways[i] ? &s->ways[w] : way;
        if (!holds[i] || again)
            continue;
        *bytes += way ? way->bytes : s->items[i].bytes;
        *cost += way ? way->ps : 0;
    }
    for (uint32_t e = 0; e < b->charge_count; e++) {
        uint32_t node = b->item_count + b->task_count + e;
        for (uint32_t a = 0; a < b->arc_count; a++)
            holds[node] |= s->arcs[a].ps == REMAT_BORDER_RULE && s->arcs[a].to.i == node &&
                           holds[s->arcs[a].from.i];
        *cost += holds[node] ? s->charge_ps[e] : 0;
    }
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (s->arcs[a].ps > 0 && holds[s->arcs[a].from.i] && !holds[s->arcs[a].to.i])
            *cost += s->arcs[a].ps;
    return true;
}

/* From one combination of ways to the next; false after the last. */
static bool next_ways(const struct sample *s, uint8_t *ways)
{
    for (uint32_t i = 0; i < s->border.item_count; i++) {
        uint32_t w = s->items[i].way_begin;
        while (ways[i] && w < s->items[i].way_end && s->ways[w].action != ways[i])
            w++;
        w += ways[i] != 0;
        ways[i] = (uint8_t)(w < s->items[i].way_end ? s->ways[w].action : 0);
        if (ways[i])
            return true;
    }
    return false;
}

static void find_cheapest(struct sample *s)
{
    uint8_t ways[ITEMS] = {0};
    for (uint32_t unit = 0; unit < UNITS; unit++)
        s->cheapest[unit] = INFINITY;
    do {
        for (uint32_t choice = 0; choice < 1u << s->border.task_count; choice++) {
            int64_t cost;
            uint64_t bytes;
            if (price_choice(s, choice, ways, &cost, &bytes))
                s->cheapest[bytes / 256] = fmin(s->cheapest[bytes / 256], (double)cost);
        }
    } while (next_ways(s, ways));
}

/* Least cost + price * bytes over all choices of at most `most` bytes; infinite without one. */
static double least(const struct sample *s, double price, uint64_t most)
{
    double best = INFINITY;
    for (uint64_t unit = 0; unit < UNITS && unit * 256 <= most; unit++)
        best = fmin(best, s->cheapest[unit] + price * (double)unit * 256);
    return best;
}

static void check_cut(const struct sample *s, struct remat_border_network *network, double price)
{
    struct remat_border_cut cut = remat_border_cut(network, price);
    struct remat_border_choice found = cut.choice;
    double bound = cut.least_ps, best = least(s, price, UINT64_MAX);
    uint32_t choice = 0;
    int64_t cost;
    uint64_t bytes;
    for (uint32_t k = 0; k < s->border.task_count; k++)
        choice |= (uint32_t)found.run[k] << k;
    CHECK(price_choice(s, choice, found.way, &cost, &bytes), "the cut is no choice");
    CHECK(cost == found.cost_ps && bytes == found.bytes, "cost %ld not %ld, bytes %lu not %lu",
          (long)found.cost_ps, (long)cost, (unsigned long)found.bytes, (unsigned long)bytes);
    CHECK(bound <= best + 1e-9, "bound %g above the optimum %g", bound, best);
    CHECK(bound >= best - 0.5, "bound %g below the optimum %g by more than rounding", bound, best);
    CHECK((double)cost + price * (double)bytes <= best + 0.5, "cut %g, optimum %g",
          (double)cost + price * (double)bytes, best);
}

static void check_hull(const struct sample *s, struct remat_arena *arena)
{
    struct remat_border_hull hull = remat_border_find_hull(arena, &s->border);
    for (uint32_t i = 0; i < hull.count; i++) {
        const struct remat_border_choice *p = &hull.points[i];
        CHECK((double)p->cost_ps == least(s, 0, p->bytes), "corner %u: %ld, optimum %g", i,
              (long)p->cost_ps, least(s, 0, p->bytes));
        CHECK(i == 0 || (p->bytes < p[-1].bytes && p->cost_ps > p[-1].cost_ps), "order");
    }
    CHECK(hull.points[hull.count - 1].bytes == 0 ||
              isinf(least(s, 0, hull.points[hull.count - 1].bytes - 1)),
          "a choice keeps less than the last corner");
}

/* Sums the shares bound / optimum over cases in which the optimum costs something. */
static void check_bounds(const struct sample *s, struct remat_border_network *network,
                         double *share, uint32_t *cases)
{
    for (uint64_t bytes = 0; bytes <= 40 * 256; bytes += 5 * 256) {
        double again, best = least(s, 0, bytes), anyway = least(s, 0, UINT64_MAX);
        double bound = remat_border_bound(network, bytes, -INFINITY);
        CHECK(bound <= best + 1e-9, "bound %g above the optimum %g at %lu B", bound, best,
              (unsigned long)bytes);
        again = remat_border_bound(network, bytes, bound - 1);
        CHECK(again == bound, "bound %g, but %g where one less is enough", bound, again);
        again = remat_border_bound(network, bytes, best);
        CHECK(again <= bound, "bound %g, but %g where the optimum is enough", bound, again);
        if (isinf(best) || best <= anyway)
            continue;
        *share += (bound - anyway) / (best - anyway);
        ++*cases;
    }
}

static int64_t cost_of(struct test *t, const struct remat_border *b, const uint8_t *times)
{
    struct remat_border_choice choice = remat_border_follow(&t->arena, b, times);
    remat_border_measure(&t->arena, b, &choice);
    return choice.cost_ps;
}

static void check_marginals(struct test *t, const struct sample *s)
{
    const struct remat_border *b = &s->border;
    uint8_t times[ITEMS], otherwise[ITEMS];
    int64_t extra_ps[ITEMS];
    for (uint32_t i = 0; i < b->item_count; i++) {
        times[i] = (uint8_t)draw(t, 0, REMAT_ROUNDS_MAX);
        otherwise[i] = (uint8_t)draw(t, 1, REMAT_ROUNDS_MAX);
    }
    remat_border_marginals(&t->arena, b, times, otherwise, extra_ps);
    for (uint32_t i = 0; i < b->item_count; i++) {
        uint8_t was = times[i];
        int64_t saved_ps, recomputed_ps;
        times[i] = 0;
        saved_ps = cost_of(t, b, times);
        times[i] = was ? was : otherwise[i];
        recomputed_ps = cost_of(t, b, times);
        times[i] = was;
        CHECK(extra_ps[i] == recomputed_ps - saved_ps, "item %u: %ld, not %ld", i,
              (long)extra_ps[i], (long)(recomputed_ps - saved_ps));
    }
}

/* A way that keeps little less than another, at a high price: the last corner has it all the same.
 */
static void check_close_ways(struct test *t)
{
    struct sample s = {.ways = {{768, 100, 1, 0}}};
    s.items[0] = (struct remat_border_item){.bytes = 1024, .way_end = 1, .wanted = true};
    s.items[0].kept = true;
    s.border = (struct remat_border){.item_count = 1,
                                     .task_count = 1,
                                     .way_count = 1,
                                     .items = s.items,
                                     .tasks = s.tasks,
                                     .ways = s.ways,
                                     .inputs = s.inputs};
    find_cheapest(&s);
    check_hull(&s, &t->arena);
}

int main(void)
{
    struct test t;
    struct sample s;
    double share = 0;
    uint32_t cases = 0, infeasible = 0;
    test_begin(&t);
    check_close_ways(&t);
    for (int i = 0; i < PROBLEMS; i++) {
        make_sample(&t, &s);
        find_cheapest(&s);
        check_marginals(&t, &s);
        if (isinf(least(&s, 0, UINT64_MAX))) { /* pins that nothing can meet */
            infeasible++;
            continue;
        }
        struct remat_border_network *network = remat_border_network(&t.arena, &s.border);
        for (int k = 0; k < 5; k++) /* up and down: flows go on from the last where they can */
            check_cut(&s, network, (double[]){0.01, 0, 0.002, 3, 0.04}[k]);
        check_hull(&s, &t.arena);
        check_bounds(&s, network, &share, &cases);
        test_next(&t);
    }
    check_figure(cases, "solve_border cases that cost something");
    check_figure(share / cases, "solve_border bound / optimum");
    printf("%u cases with a cost: bound / optimum %.3f on average; %u without a choice\n", cases,
           share / cases, infeasible);
    return test_end(&t);
}
