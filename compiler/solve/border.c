/* SPDX-License-Identifier: Apache-2.0 */
/* Source side of the cut: item "available", task "runs", extra "charged". An arc that leaves it is
 * paid, so every rule of the form "if this then that" is an unbounded arc. Capacities are integers,
 * rounded down, so that a cut proves its bound without tolerances; the unit is 1/64 ps, or coarser
 * where a high price would not fit. */
#include "border.h"

#include "flow.h"
#include "program.h" /* REMAT_NONE */

#include <math.h>

#define UNITS_PER_PS    64.0
#define UNITS_MAX       (double)((int64_t)1 << 58) /* of all finite capacities together */
#define LEAST_PRICE     1e-4 /* ps per byte: breaks ties between choices of equal cost */
#define HULL_POINTS_MAX 256u
#define NEWTON_STEPS    24

struct remat_border_network {
    struct remat_arena *arena;
    const struct remat_border *border;
    struct remat_flow flow;
    uint32_t source, sink;
    uint32_t *keep_arc;              /* by item: available -> runs, the price of keeping it */
    double total_ps;                 /* more than all costs together */
    double total_bytes, least_bytes; /* of an item that has some */
    struct {
        struct arc_capacity {
            uint32_t arc;
            double ps; /* infinite: unbounded */
        } * items;
        size_t count, capacity;
    } arcs; /* with capacities that do not depend on the price */
    struct {
        struct cut {
            double price, least_ps;
            struct remat_border_point point;
        } * items;
        size_t count, capacity;
    } cuts; /* that were asked for: searches for several rooms go the same ways */
};

static uint32_t item_node(uint32_t item)
{
    return item;
}

static void sum_up(struct remat_border_network *n)
{
    const struct remat_border *b = n->border;
    n->total_ps = 1 + fabs((double)b->constant_ps);
    n->least_bytes = INFINITY;
    for (uint32_t t = 0; t < b->task_count; t++)
        n->total_ps += fabs((double)b->tasks[t].cost_ps);
    for (uint32_t e = 0; e < b->extra_count; e++)
        n->total_ps += (double)b->extra_ps[e];
    for (uint32_t a = 0; a < b->arc_count; a++)
        n->total_ps += b->arcs[a].ps > 0 ? (double)b->arcs[a].ps : 0;
    for (uint32_t i = 0; i < b->item_count; i++) {
        n->total_bytes += (double)b->items[i].bytes;
        if (b->items[i].bytes)
            n->least_bytes = fmin(n->least_bytes, (double)b->items[i].bytes);
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

static void add_arc(struct remat_border_network *n, uint32_t from, uint32_t to, double ps)
{
    uint32_t arc;
    remat_flow_add(&n->flow, from, to, 0, &arc);
    REMAT_PUSH(n->arena, &n->arcs, ((struct arc_capacity){arc, ps}));
}

static void add_item(struct remat_border_network *n, uint32_t i)
{
    const struct remat_border_item *item = &n->border->items[i];
    uint32_t task = remat_border_task_node(n->border, item->task);
    if (item->wanted)
        add_arc(n, n->source, item_node(i), INFINITY);
    if (item->kept)
        add_arc(n, task, n->sink, INFINITY);
    if (item->recomputed && !item->kept)
        add_arc(n, item_node(i), task, INFINITY);
    remat_flow_add(&n->flow, item_node(i), task, 0, &n->keep_arc[i]);
}

static void add_task(struct remat_border_network *n, uint32_t t)
{
    const struct remat_border *b = n->border;
    const struct remat_border_task *task = &b->tasks[t];
    uint32_t node = remat_border_task_node(b, t);
    if (task->forbidden) {
        add_arc(n, node, n->sink, INFINITY);
        return;
    }
    if (task->cost_ps > 0)
        add_arc(n, node, n->sink, (double)task->cost_ps);
    if (task->cost_ps < 0)
        add_arc(n, n->source, node, -(double)task->cost_ps);
    for (uint32_t i = task->input_begin; i < task->input_end; i++)
        add_arc(n, node, item_node(b->inputs[i]), INFINITY);
}

struct remat_border_network *remat_border_network(struct remat_arena *arena,
                                                  const struct remat_border *b)
{
    struct remat_border_network *n;
    uint32_t nodes = b->item_count + b->task_count + b->extra_count;
    REMAT_NEW(arena, n, 1);
    *n = (struct remat_border_network){
        .arena = arena, .border = b, .source = nodes, .sink = nodes + 1};
    sum_up(n);
    remat_flow_create(arena, nodes + 2, &n->flow);
    REMAT_NEW(arena, n->keep_arc, b->item_count);
    for (uint32_t i = 0; i < b->item_count; i++)
        add_item(n, i);
    for (uint32_t t = 0; t < b->task_count; t++)
        add_task(n, t);
    for (uint32_t e = 0; e < b->extra_count; e++)
        if (b->extra_ps[e])
            add_arc(n, remat_border_extra_node(b, e), n->sink, (double)b->extra_ps[e]);
    for (uint32_t a = 0; a < b->arc_count; a++)
        add_arc(n, b->arcs[a].from, b->arcs[a].to,
                b->arcs[a].ps == REMAT_BORDER_RULE ? INFINITY : (double)b->arcs[a].ps);
    return n;
}

void remat_border_measure(struct remat_arena *arena, const struct remat_border *b,
                          struct remat_border_point *point)
{
    bool *holds; /* by node */
    REMAT_NEW(arena, holds, b->item_count + b->task_count + b->extra_count);
    REMAT_NEW(arena, point->keep, b->item_count);
    point->cost_ps = b->constant_ps;
    point->bytes = 0;
    for (uint32_t i = 0; i < b->item_count; i++)
        holds[i] = b->items[i].wanted;
    for (uint32_t t = 0; t < b->task_count; t++) {
        const struct remat_border_task *task = &b->tasks[t];
        if (!point->run[t])
            continue;
        holds[remat_border_task_node(b, t)] = true;
        point->cost_ps += task->cost_ps + (point->again && point->again[t] ? task->again_ps : 0);
        for (uint32_t i = task->input_begin; i < task->input_end; i++)
            holds[b->inputs[i]] = true;
    }
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (b->arcs[a].ps == REMAT_BORDER_RULE)
            holds[b->arcs[a].to] |= holds[b->arcs[a].from];
    for (uint32_t e = 0; e < b->extra_count; e++)
        point->cost_ps += holds[remat_border_extra_node(b, e)] ? b->extra_ps[e] : 0;
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (b->arcs[a].ps > 0 && holds[b->arcs[a].from] && !holds[b->arcs[a].to])
            point->cost_ps += b->arcs[a].ps;
    for (uint32_t i = 0; i < b->item_count; i++) {
        point->keep[i] = holds[i] && !point->run[b->items[i].task];
        point->bytes += point->keep[i] ? b->items[i].bytes : 0;
    }
}

static void find_cut(struct remat_border_network *n, double price, struct remat_border_point *point,
                     double *least_ps)
{
    const struct remat_border *b = n->border;
    int64_t flow;
    int64_t negative_ps = b->constant_ps;
    double units = UNITS_MAX / (n->total_ps + price * n->total_bytes);
    units = fmin(units, UNITS_PER_PS);
    for (size_t a = 0; a < n->arcs.count; a++) {
        double ps = n->arcs.items[a].ps;
        remat_flow_set(&n->flow, n->arcs.items[a].arc,
                       isinf(ps) ? REMAT_FLOW_UNBOUNDED : (int64_t)(ps * units));
    }
    for (uint32_t i = 0; i < b->item_count; i++)
        remat_flow_set(&n->flow, n->keep_arc[i],
                       (int64_t)(price * (double)b->items[i].bytes * units));
    for (uint32_t t = 0; t < b->task_count; t++)
        if (b->tasks[t].cost_ps < 0 && !b->tasks[t].forbidden)
            negative_ps += b->tasks[t].cost_ps;
    remat_flow_run(&n->flow, n->source, n->sink, &flow);
    *least_ps = (double)flow / units + (double)negative_ps - rounding_ps(n, price);
    *point = (struct remat_border_point){0};
    REMAT_NEW(n->arena, point->run, b->task_count);
    for (uint32_t t = 0; t < b->task_count; t++)
        point->run[t] = n->flow.level[remat_border_task_node(b, t)] != UINT32_MAX;
    remat_border_measure(n->arena, b, point);
}

void remat_border_cut(struct remat_border_network *n, double price,
                      struct remat_border_point *point, double *least_ps)
{
    struct cut cut = {.price = price};
    size_t c = 0;
    while (c < n->cuts.count && n->cuts.items[c].price != price)
        c++;
    if (c == n->cuts.count) {
        find_cut(n, price, &cut.point, &cut.least_ps);
        REMAT_PUSH(n->arena, &n->cuts, cut);
    }
    *point = n->cuts.items[c].point;
    *least_ps = n->cuts.items[c].least_ps;
}

uint64_t remat_border_least_bytes(struct remat_border_network *network)
{
    struct remat_border_point point;
    double ignored;
    remat_border_cut(network, highest_price(network), &point, &ignored);
    return point.bytes;
}

struct hull_builder {
    struct remat_border_network *network;
    struct {
        struct remat_border_point *items;
        size_t count, capacity;
    } points;
};

static double price_between(const struct remat_border_point *from,
                            const struct remat_border_point *to)
{
    return (double)(to->cost_ps - from->cost_ps) / (double)(from->bytes - to->bytes);
}

/* Whether a choice lies below the line between two others, and between them. */
static bool is_corner(const struct remat_border_point *from, const struct remat_border_point *p,
                      const struct remat_border_point *to)
{
    double price = price_between(from, to);
    return p->bytes < from->bytes && p->bytes > to->bytes && p->cost_ps > from->cost_ps &&
           p->cost_ps < to->cost_ps &&
           (double)p->cost_ps + price * (double)p->bytes <
               (double)from->cost_ps + price * (double)from->bytes - 1;
}

/* Appends the corners after `from`, up to and with `to`. */
static void between(struct hull_builder *h, const struct remat_border_point *from,
                    const struct remat_border_point *to)
{
    struct remat_border_point middle;
    double ignored;
    remat_border_cut(h->network, price_between(from, to), &middle, &ignored);
    if (is_corner(from, &middle, to) && h->points.count < HULL_POINTS_MAX) {
        between(h, from, &middle);
        {
            between(h, &middle, to);
            return;
        }
    }
    REMAT_PUSH(h->network->arena, &h->points, *to);
}

void remat_border_find_hull(struct remat_border_network *network, struct remat_border_hull *out)
{
    struct hull_builder h = {.network = network};
    struct remat_border_point most, least;
    double ignored;
    remat_border_cut(network, LEAST_PRICE, &most, &ignored);
    remat_border_cut(network, highest_price(network), &least, &ignored);
    REMAT_PUSH(network->arena, &h.points, most);
    if (least.bytes < most.bytes && least.cost_ps > most.cost_ps)
        between(&h, &most, &least);
    out->points = h.points.items;
    out->count = (uint32_t)h.points.count;
}

void remat_border_bound(struct remat_border_network *network, uint64_t bytes, double enough_ps,
                        double *out_ps)
{
    struct remat_border_point above, below, middle;
    double line;
    remat_border_cut(network, 0, &above, out_ps);
    if (above.bytes <= bytes)
        return;
    remat_border_cut(network, highest_price(network), &below, &line);
    *out_ps = fmax(*out_ps, line - highest_price(network) * (double)bytes);
    for (int step = 0; step < NEWTON_STEPS && below.bytes < above.bytes; step++) {
        double price = price_between(&above, &below);
        double chord_ps = (double)above.cost_ps + price * ((double)above.bytes - (double)bytes);
        if (!(price > 0) || chord_ps <= enough_ps) /* the hull is convex */
            break;
        remat_border_cut(network, price, &middle, &line);
        *out_ps = fmax(*out_ps, line - price * (double)bytes);
        if (!is_corner(&above, &middle, &below))
            break;
        *(middle.bytes > bytes ? &above : &below) = middle;
    }
}

void remat_border_binding_cut(const struct remat_border_network *n, uint64_t bytes,
                              struct remat_border_point *point, double *price)
{
    double best_ps = -INFINITY;
    for (size_t c = 0; c < n->cuts.count; c++) {
        const struct cut *cut = &n->cuts.items[c];
        double ps = cut->least_ps - cut->price * (double)bytes;
        if (ps > best_ps) {
            best_ps = ps;
            *point = cut->point;
            *price = cut->price;
        }
    }
}
