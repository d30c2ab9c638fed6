/* SPDX-License-Identifier: Apache-2.0 */
/* Source side of the cut: item "available", task "runs", charge "due". An arc that leaves it is
 * paid, so every rule of the form "if this then that" is an unbounded arc. Capacities are integers,
 * rounded down, so that a cut proves its bound without tolerances; the unit is 1/64 ps, or coarser
 * where a high price would not fit. */
#include "border.h"

#include "flow.h"
#include "program.h" /* REMAT_NONE */

#include <assert.h>
#include <math.h>

#define UNITS_PER_PS    64.0
#define UNITS_MAX       (double)((int64_t)1 << 58) /* of all finite capacities together */
#define LEAST_PRICE     1e-4 /* ps per byte: breaks ties between choices of equal cost */
#define HULL_POINTS_MAX 256u
#define NEWTON_STEPS    24

struct capacity {
    double ps;       /* infinite: unbounded */
    remat_item keep; /* or what it takes to keep the item at the price asked for; none: it is ps */
    uint8_t kind;    /* of the work */
};

struct remat_border_network {
    struct remat_arena *arena;
    const struct remat_border *border;
    struct remat_flow flow;
    remat_flow_node source, sink;                  /* the others are the border's nodes */
    double total_ps;                               /* more than all costs together */
    double total_bytes, least_bytes;               /* of an item that has some */
    struct REMAT_LIST(struct capacity) capacities; /* by arc of the flow; its reverse has none */
    struct remat_weights weights;                  /* all 1 without kinds of work */
    double weight_of[REMAT_WORK_KINDS];
    double price, units; /* that the flow was found for last; price NAN: there is none */
    int64_t value;       /* of that flow */
    /* The cuts found so far; searches for several budgets share prices. */
    struct REMAT_LIST(struct remat_border_cut) cuts;
};

double remat_border_most_ps(const struct remat_border *b)
{
    double ps = 1 + fabs((double)b->constant_ps);
    for (remat_task t = {0}; t.i < b->task_count; t.i++)
        ps += fabs((double)b->tasks[t.i].cost_ps) + (double)b->tasks[t.i].again_ps;
    for (uint32_t e = 0; e < b->charge_count; e++)
        ps += (double)b->charge_ps[e];
    for (uint32_t a = 0; a < b->arc_count; a++)
        ps += b->arcs[a].ps > 0 ? (double)b->arcs[a].ps : 0;
    for (uint32_t w = 0; w < b->way_count; w++)
        ps += (double)b->ways[w].ps;
    return ps;
}

static void add_least(struct remat_border_network *n, uint64_t bytes)
{
    if (bytes)
        n->least_bytes = fmin(n->least_bytes, (double)bytes);
}

/* Of two ways to keep an item one may save little over the other: half of what counts here. */
static void add_way(struct remat_border_network *n, const struct remat_border_item *item,
                    uint32_t w)
{
    const struct remat_border_way *ways = n->border->ways;
    add_least(n, ways[w].bytes);
    for (uint32_t x = item->way_begin; x <= w; x++) {
        uint64_t other = x < w ? ways[x].bytes : item->bytes;
        add_least(n, 2 * (other > ways[w].bytes ? other - ways[w].bytes : ways[w].bytes - other));
    }
}

static void sum_up(struct remat_border_network *n)
{
    const struct remat_border *b = n->border;
    n->total_ps = remat_border_most_ps(b);
    for (uint32_t kind = 0; b->work && kind < REMAT_WORK_KINDS; kind++)
        n->total_ps += fabs((double)b->work->constant_ps[kind]);
    n->least_bytes = INFINITY;
    for (remat_item i = {0}; i.i < b->item_count; i.i++) {
        n->total_bytes += (double)b->items[i.i].bytes;
        add_least(n, b->items[i.i].bytes);
        for (uint32_t w = b->items[i.i].way_begin; w < b->items[i.i].way_end; w++)
            add_way(n, &b->items[i.i], w);
    }
}

/* Keeping less is worth any cost from here on. */
static double highest_price(const struct remat_border_network *n)
{
    return 2 * n->total_ps / n->least_bytes;
}

/* More than what rounding in double adds to a bound at this price. */
static double rounding_ps(const struct remat_border_network *n, double price)
{
    return 0x1p-50 * (n->total_ps + price * n->total_bytes);
}

static remat_flow_node in_flow(remat_border_node node)
{
    return (remat_flow_node){node.i};
}

/* Of costs of one sort, such as tasks; without kinds of work it is 0. */
static uint8_t kind_of(const uint8_t *kinds, uint32_t index)
{
    return kinds ? kinds[index] : 0;
}

static void add_arc(struct remat_border_network *n, remat_flow_node from, remat_flow_node to,
                    double ps, uint8_t kind)
{
    remat_flow_add(&n->flow, from, to);
    REMAT_PUSH(n->arena, &n->capacities, ((struct capacity){ps, {REMAT_NONE}, kind}));
}

static void add_item(struct remat_border_network *n, remat_item i)
{
    const struct remat_border_item *item = &n->border->items[i.i];
    remat_flow_node node = in_flow(remat_border_item_node(i));
    remat_flow_node task = in_flow(remat_border_task_node(n->border, item->task));
    if (item->wanted)
        add_arc(n, n->source, node, INFINITY, 0);
    if (item->kept)
        add_arc(n, task, n->sink, INFINITY, 0);
    if (item->recomputed && !item->kept)
        add_arc(n, node, task, INFINITY, 0);
    add_arc(n, node, task, 0, 0);
    n->capacities.items[n->capacities.count - 1].keep = i;
}

static void add_task(struct remat_border_network *n, remat_task t)
{
    const struct remat_border *b = n->border;
    const struct remat_border_task *task = &b->tasks[t.i];
    remat_flow_node node = in_flow(remat_border_task_node(b, t));
    uint8_t kind = kind_of(b->work ? b->work->task : NULL, t.i);
    if (task->cost_ps > 0)
        add_arc(n, node, n->sink, (double)task->cost_ps, kind);
    if (task->cost_ps < 0)
        add_arc(n, n->source, node, -(double)task->cost_ps, kind);
    for (uint32_t i = task->input_begin; i < task->input_end; i++)
        add_arc(n, node, in_flow(remat_border_item_node(b->inputs[i])), INFINITY, 0);
}

/* Reserves all arcs: growing lists would leave as much garbage in the arena. */
static void reserve(struct remat_border_network *n)
{
    const struct remat_border *b = n->border;
    size_t count = 3 * (size_t)b->item_count + b->task_count + b->charge_count + b->arc_count;
    for (remat_task t = {0}; t.i < b->task_count; t.i++)
        count += b->tasks[t.i].input_end - b->tasks[t.i].input_begin;
    remat_flow_reserve(&n->flow, count);
    n->capacities.capacity = count;
    REMAT_NEW_UNINITIALIZED(n->arena, n->capacities.items, count);
}

struct remat_border_network *remat_border_network(struct remat_arena *arena,
                                                  const struct remat_border *b)
{
    struct remat_border_network *n;
    uint32_t nodes = b->item_count + b->task_count + b->charge_count;
    REMAT_NEW(arena, n, 1);
    *n = (struct remat_border_network){.arena = arena,
                                       .border = b,
                                       .flow = {.arena = arena, .node_count = nodes + 2},
                                       .source = {nodes},
                                       .sink = {nodes + 1},
                                       .price = NAN};
    remat_border_weigh(n, NULL);
    sum_up(n);
    reserve(n);
    for (remat_item i = {0}; i.i < b->item_count; i.i++)
        add_item(n, i);
    for (remat_task t = {0}; t.i < b->task_count; t.i++)
        add_task(n, t);
    for (uint32_t e = 0; e < b->charge_count; e++)
        if (b->charge_ps[e])
            add_arc(n, in_flow(remat_border_charge_node(b, e)), n->sink, (double)b->charge_ps[e],
                    kind_of(b->work ? b->work->charge : NULL, e));
    for (uint32_t a = 0; a < b->arc_count; a++)
        add_arc(n, in_flow(b->arcs[a].from), in_flow(b->arcs[a].to),
                b->arcs[a].ps == REMAT_BORDER_RULE ? INFINITY : (double)b->arcs[a].ps,
                kind_of(b->work ? b->work->arc : NULL, a));
    remat_flow_index(&n->flow);
    return n;
}

void remat_border_weigh(struct remat_border_network *n, const struct remat_weights *weights)
{
    const struct remat_border_work *work = n->border->work;
    n->price = NAN; /* flows of other weights are of no use */
    n->weights = weights ? *weights : work ? work->weights : (struct remat_weights){0};
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
        n->weight_of[kind] = work ? remat_work_weight(&n->weights, kind) : 1;
}

enum { IN_PLACE = UINT32_MAX }; /* no way of its own */

static uint32_t find_way(const struct remat_border *b, remat_item item, uint8_t action)
{
    for (uint32_t w = b->items[item.i].way_begin; w < b->items[item.i].way_end; w++)
        if (b->ways[w].action == action)
            return w;
    return IN_PLACE;
}

struct remat_border_way remat_border_way(const struct remat_border *b, remat_item item,
                                         uint8_t action)
{
    uint32_t w = find_way(b, item, action);
    return w == IN_PLACE ? (struct remat_border_way){.bytes = b->items[item.i].bytes} : b->ways[w];
}

/* Adds what a choice costs. */
static void charge(struct remat_border_choice *choice, const uint8_t *kinds, uint32_t index,
                   int64_t ps)
{
    choice->work_ps[kind_of(kinds, index)] += ps;
}

static int64_t weigh(const struct remat_border *b, const struct remat_weights *weights,
                     const int64_t *work_ps)
{
    return b->work ? (int64_t)llround(remat_work_weigh(weights, work_ps)) : work_ps[0];
}

/* What every choice costs, by kind. */
static void begin_work(const struct remat_border *b, int64_t *work_ps)
{
    if (b->work)
        memcpy(work_ps, b->work->constant_ps, sizeof b->work->constant_ps);
    else
        work_ps[0] = b->constant_ps;
}

void remat_border_measure(struct remat_arena *arena, const struct remat_border *b,
                          struct remat_border_choice *choice)
{
    static const struct remat_border_work alike;
    const struct remat_border_work *work = b->work ? b->work : &alike;
    bool *holds; /* by node */
    REMAT_NEW(arena, holds, b->item_count + b->task_count + b->charge_count);
    REMAT_NEW_UNINITIALIZED(arena, choice->keep, b->item_count);
    begin_work(b, choice->work_ps);
    choice->bytes = 0;
    for (remat_item i = {0}; i.i < b->item_count; i.i++)
        holds[i.i] = b->items[i.i].wanted;
    for (remat_task t = {0}; t.i < b->task_count; t.i++) {
        const struct remat_border_task *task = &b->tasks[t.i];
        if (!choice->run[t.i])
            continue;
        holds[remat_border_task_node(b, t).i] = true;
        charge(choice, work->task, t.i,
               task->cost_ps + (choice->again && choice->again[t.i] ? task->again_ps : 0));
        for (uint32_t i = task->input_begin; i < task->input_end; i++)
            holds[b->inputs[i].i] = true;
    }
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (b->arcs[a].ps == REMAT_BORDER_RULE)
            holds[b->arcs[a].to.i] |= holds[b->arcs[a].from.i];
    for (uint32_t e = 0; e < b->charge_count; e++)
        if (holds[remat_border_charge_node(b, e).i])
            charge(choice, work->charge, e, b->charge_ps[e]);
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (b->arcs[a].ps > 0 && holds[b->arcs[a].from.i] && !holds[b->arcs[a].to.i])
            charge(choice, work->arc, a, b->arcs[a].ps);
    for (remat_item i = {0}; i.i < b->item_count; i.i++) {
        choice->keep[i.i] = holds[i.i] && !choice->run[b->items[i.i].task.i];
        if (!choice->keep[i.i])
            continue;
        uint32_t w = find_way(b, i, choice->way ? choice->way[i.i] : 0);
        choice->bytes += w == IN_PLACE ? b->items[i.i].bytes : b->ways[w].bytes;
        if (w == IN_PLACE)
            continue;
        charge(choice, work->put, w, b->ways[w].put_ps);
        charge(choice, work->get, w, b->ways[w].ps - b->ways[w].put_ps);
    }
    choice->cost_ps = weigh(b, &work->weights, choice->work_ps);
}

/* What it takes to keep an item at the network's weights. */
static double way_ps(const struct remat_border_network *n, remat_item item, uint32_t w,
                     double price)
{
    const struct remat_border *b = n->border;
    if (w == IN_PLACE)
        return price * (double)b->items[item.i].bytes;
    const struct remat_border_way *way = &b->ways[w];
    double put = n->weight_of[kind_of(b->work ? b->work->put : NULL, w)];
    double get = n->weight_of[kind_of(b->work ? b->work->get : NULL, w)];
    return put * (double)way->put_ps + get * (double)(way->ps - way->put_ps) +
           price * (double)way->bytes;
}

/* The best way to keep the item at this price. */
static uint32_t best_way(const struct remat_border_network *n, remat_item item, double price)
{
    uint32_t best = IN_PLACE;
    for (uint32_t w = n->border->items[item.i].way_begin; w < n->border->items[item.i].way_end; w++)
        if (way_ps(n, item, w, price) < way_ps(n, item, best, price))
            best = w;
    return best;
}

/* At a higher price no capacity is less, so the last flow stays. */
static void find_flow(struct remat_border_network *n, double price)
{
    double units = fmin(UNITS_PER_PS, UNITS_MAX / (n->total_ps + price * n->total_bytes));
    bool higher = price >= n->price && units == n->units;
    for (uint32_t a = 0; a < n->capacities.count; a++) {
        const struct capacity *c = &n->capacities.items[a];
        int64_t capacity = REMAT_FLOW_UNBOUNDED;
        if (c->keep.i != REMAT_NONE)
            capacity = (int64_t)(way_ps(n, c->keep, best_way(n, c->keep, price), price) * units);
        else if (!isinf(c->ps))
            capacity = (int64_t)(c->ps * n->weight_of[c->kind] * units);
        (higher ? remat_flow_raise : remat_flow_set)(&n->flow, a, capacity);
    }
    n->value = higher ? n->value : 0;
    n->value += remat_flow_run(&n->flow, n->source, n->sink);
    n->price = price;
    n->units = units;
}

static struct remat_border_cut find_cut(struct remat_border_network *n, double price)
{
    const struct remat_border *b = n->border;
    struct remat_border_cut cut = {.price = price, .weights = n->weights};
    int64_t negative_ps[REMAT_WORK_KINDS] = {0};
    begin_work(b, negative_ps);
    find_flow(n, price);
    for (remat_task t = {0}; t.i < b->task_count; t.i++)
        if (b->tasks[t.i].cost_ps < 0)
            negative_ps[kind_of(b->work ? b->work->task : NULL, t.i)] += b->tasks[t.i].cost_ps;
    double given_ps = b->work ? remat_work_weigh(&n->weights, negative_ps) : (double)negative_ps[0];
    cut.least_ps = (double)n->value / n->units + given_ps - rounding_ps(n, price);
    REMAT_NEW(n->arena, cut.choice.run, b->task_count);
    for (remat_task t = {0}; t.i < b->task_count; t.i++)
        cut.choice.run[t.i] = n->flow.level[remat_border_task_node(b, t).i] != UINT32_MAX;
    REMAT_NEW(n->arena, cut.choice.way, b->item_count);
    for (remat_item i = {0}; i.i < b->item_count; i.i++) {
        uint32_t w = best_way(n, i, price);
        cut.choice.way[i.i] = w == IN_PLACE ? 0 : b->ways[w].action;
    }
    remat_border_measure(n->arena, b, &cut.choice);
    cut.choice.cost_ps = weigh(b, &n->weights, cut.choice.work_ps);
    return cut;
}

struct remat_border_cut remat_border_cut(struct remat_border_network *n, double price)
{
    assert(isfinite(price) && price >= 0);
    for (size_t c = 0; c < n->cuts.count; c++)
        if (n->cuts.items[c].price == price &&
            remat_weights_equal(&n->cuts.items[c].weights, &n->weights))
            return n->cuts.items[c];
    struct remat_border_cut cut = find_cut(n, price);
    REMAT_PUSH(n->arena, &n->cuts, cut);
    return cut;
}

uint64_t remat_border_least_bytes(struct remat_border_network *network)
{
    return remat_border_cut(network, highest_price(network)).choice.bytes;
}

double remat_border_price_between(const struct remat_border_choice *from,
                                  const struct remat_border_choice *to)
{
    return (double)(to->cost_ps - from->cost_ps) / (double)(from->bytes - to->bytes);
}

/* Whether a choice lies below the line between two others, and between them. */
static bool is_below(const struct remat_border_choice *from, const struct remat_border_choice *p,
                     const struct remat_border_choice *to)
{
    double price = remat_border_price_between(from, to);
    return p->bytes < from->bytes && p->bytes > to->bytes &&
           (double)p->cost_ps + price * (double)p->bytes <
               (double)from->cost_ps + price * (double)from->bytes - 1;
}

struct points REMAT_LIST(struct remat_border_choice);

/* Appends the corners after `from`, up to and with `to`. */
static void between(struct remat_border_network *n, struct remat_arena *arena,
                    struct points *points, const struct remat_border_choice *from,
                    const struct remat_border_choice *to)
{
    struct remat_border_choice middle =
        remat_border_cut(n, remat_border_price_between(from, to)).choice;
    if (is_below(from, &middle, to) && middle.cost_ps > from->cost_ps &&
        middle.cost_ps < to->cost_ps && points->count < HULL_POINTS_MAX) {
        between(n, arena, points, from, &middle);
        between(n, arena, points, &middle, to);
    } else {
        REMAT_PUSH(arena, points, *to);
    }
}

struct remat_border_hull remat_border_find_hull(struct remat_arena *arena,
                                                const struct remat_border *border)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    struct remat_border_network *n = remat_border_network(scratch, border);
    struct points points = {0};
    struct remat_border_choice most = remat_border_cut(n, LEAST_PRICE).choice;
    struct remat_border_choice least = remat_border_cut(n, highest_price(n)).choice;
    REMAT_PUSH(arena, &points, most);
    if (least.bytes < most.bytes && least.cost_ps > most.cost_ps)
        between(n, arena, &points, &most, &least);
    for (size_t p = 0; p < points.count; p++) {
        struct remat_border_choice *c = &points.items[p];
        c->run = remat_copy(arena, c->run, border->task_count, sizeof *c->run);
        c->keep = remat_copy(arena, c->keep, border->item_count, sizeof *c->keep);
        c->way = remat_copy(arena, c->way, border->item_count, sizeof *c->way);
    }
    remat_scratch_close(scratch);
    return (struct remat_border_hull){(uint32_t)points.count, points.items};
}

struct remat_border_bracket remat_border_bracket(struct remat_border_network *n, uint64_t bytes,
                                                 double enough_ps, struct remat_deadline *deadline)
{
    n->flow.deadline = deadline;
    struct remat_border_cut above = remat_border_cut(n, 0), below = above;
    double best_ps = above.least_ps;
    if (above.choice.bytes > bytes && !remat_deadline_expired(deadline)) {
        below = remat_border_cut(n, highest_price(n));
        best_ps = fmax(best_ps, remat_border_proven(&below, bytes));
    }
    for (int step = 0; step < NEWTON_STEPS && below.choice.bytes < above.choice.bytes; step++) {
        double price = remat_border_price_between(&above.choice, &below.choice);
        double chord_ps =
            (double)above.choice.cost_ps + price * ((double)above.choice.bytes - (double)bytes);
        if (!(price > 0) || chord_ps <= enough_ps /* the hull is convex */
            || remat_deadline_expired(deadline))
            break;
        struct remat_border_cut middle = remat_border_cut(n, price);
        best_ps = fmax(best_ps, remat_border_proven(&middle, bytes));
        if (!is_below(&above.choice, &middle.choice, &below.choice))
            break;
        *(middle.choice.bytes > bytes ? &above : &below) = middle;
    }
    return (struct remat_border_bracket){best_ps, above.choice, below.choice, n->flow.steps};
}

struct remat_border_cut remat_border_binding_cut(const struct remat_border_network *n,
                                                 uint64_t bytes)
{
    const struct remat_border_cut *best = &n->cuts.items[0];
    for (size_t c = 1; c < n->cuts.count; c++)
        if (remat_border_proven(&n->cuts.items[c], bytes) > remat_border_proven(best, bytes))
            best = &n->cuts.items[c];
    return *best;
}

struct remat_border_cuts remat_border_cuts(const struct remat_border_network *n)
{
    return (struct remat_border_cuts){n->cuts.count, n->cuts.items};
}
