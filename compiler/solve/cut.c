/* SPDX-License-Identifier: Apache-2.0 */
/* Prices are integers, rounded down, so the bound holds without tolerances. */
#include "cut.h"

#include <math.h>

enum { NEWTON_STEPS = 24, UNITS_LOG = 56 };
enum { ANCESTOR = 1, DESCENDANT }; /* sides */

/* What a node costs at least each time it is made beyond its first run, so that a run in any way
 * costs no less than its node's least time and the charges of what it fuses. What may not run again
 * can cost anything. */
static void set_charges(struct remat_cut *c)
{
    const struct remat_problem *p = c->problem;
    uint64_t most = ((UINT64_C(1) << (UNITS_LOG - 1)) - p->total_ticks) / p->node_count, sum = 0;
    for (uint32_t v = 0; v < p->node_count; v++)
        c->charge[v] =
            p->once[v] ? (p->total_ticks < most ? p->total_ticks : most) : p->least_ticks[v];
    for (uint32_t w = p->node_count; w < p->way_count; w++) {
        uint64_t extra = p->ticks[w] - p->least_ticks[p->node_of[w]], together = 0;
        for (uint32_t i = p->fused_begin[w]; i < p->fused_begin[w + 1]; i++)
            together += c->charge[p->fused[i]];
        for (uint32_t i = p->fused_begin[w]; together > extra && i < p->fused_begin[w + 1]; i++) {
            uint64_t *charge = &c->charge[p->fused[i]];
            *charge =
                (uint64_t)((double)*charge * ((double)extra / (double)together) * (1 - 0x1p-50));
        }
    }
    for (uint32_t v = 0; v < p->node_count; v++)
        sum += c->charge[v];
    while (c->shift < 20 && sum >> (UNITS_LOG - c->shift - 1) == 0)
        c->shift++;
}

/* An input of k in each of its ways. */
static bool is_always_read(const struct remat_problem *p, uint32_t k, uint32_t u)
{
    for (uint32_t i = p->way_begin[k]; i < p->way_begin[k + 1]; i++)
        if (!remat_problem_reads(p, p->ways[i], u))
            return false;
    return true;
}

bool remat_cut_look(struct remat_cut *c, uint32_t k, uint64_t budget)
{
    const struct remat_problem *p = c->problem;
    uint64_t surely = p->bytes[k] + p->lasting[k], space = UINT64_MAX;
    memset(c->side, 0, p->node_count * sizeof *c->side);
    memset(c->needed, 0, p->node_count * sizeof *c->needed);
    memset(c->free_of_charge, 0, p->node_count * sizeof *c->free_of_charge);
    c->built = false;
    c->free_of_charge[k] = true;
    c->side[k] = ANCESTOR;
    for (uint32_t i = p->way_begin[k]; i < p->way_begin[k + 1]; i++)
        space = p->workspace[p->ways[i]] < space ? p->workspace[p->ways[i]] : space;
    for (uint32_t e = p->input_begin[k]; e < p->input_begin[k + 1]; e++)
        if (is_always_read(p, k, p->inputs[e])) {
            c->free_of_charge[p->inputs[e]] = true;
            surely += p->bytes[p->inputs[e]];
        }
    for (uint32_t v = k + 1; v-- > 0;) {
        if (!c->side[v])
            continue;
        surely += v != k && !p->fusible[v] ? p->lasting[v] : 0;
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            c->side[p->inputs[e]] = ANCESTOR;
    }
    c->side[k] = 0;
    for (uint32_t v = k + 1; v < p->node_count; v++) {
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            if (p->inputs[e] == k || c->side[p->inputs[e]] == DESCENDANT)
                c->side[v] = DESCENDANT;
        for (uint32_t e = p->input_begin[v]; c->side[v] && e < p->input_begin[v + 1]; e++)
            c->needed[p->inputs[e]] = true;
    }
    if (surely + space > budget)
        return false;
    c->room = budget - surely - space;
    return true;
}

static bool has_to_be_there(const struct remat_cut *c, uint32_t v)
{
    return c->needed[v] && c->side[v] != DESCENDANT;
}

uint64_t remat_cut_pressure(const struct remat_cut *c)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < c->problem->node_count; v++)
        if (has_to_be_there(c, v) && !c->free_of_charge[v])
            bytes += c->problem->bytes[v];
    return bytes > c->room ? bytes - c->room : 0;
}

/* Nodes 2v: the value is there when a descendant (or a run) wants it; 2v + 1: it is computed. An
 * arc that leaves the source side is paid: keeping v costs its price, computing it its time. */
static void build(struct remat_cut *c)
{
    const struct remat_problem *p = c->problem;
    uint32_t n = p->node_count, source = 2 * n, sink = 2 * n + 1;
    remat_arena_release(c->arena);
    c->flow =
        (struct remat_flow){.arena = c->arena, .node_count = 2 * n + 2, .deadline = c->deadline};
    REMAT_NEW(c->arena, c->keep_arc, n);
    REMAT_NEW(c->arena, c->run_arc, n);
    REMAT_NEW(c->arena, c->need_arc, n);
    for (uint32_t v = 0; v < n; v++) {
        if (c->side[v] == DESCENDANT)
            continue;
        c->need_arc[v] = remat_flow_add(&c->flow, source, 2 * v);
        c->keep_arc[v] = remat_flow_add(&c->flow, 2 * v, 2 * v + 1);
        c->run_arc[v] = remat_flow_add(&c->flow, 2 * v + 1, sink);
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            remat_flow_add(&c->flow, 2 * v + 1, 2 * p->inputs[e]);
    }
    remat_deadline_count(c->deadline, n + c->flow.arcs.count);
    c->built = true;
}

static bool is_free(const struct remat_cut *c, uint32_t v)
{
    return c->free_of_charge[v] || c->fixed[v] == REMAT_CUT_KEPT;
}

static void set_capacities(struct remat_cut *c, double lambda)
{
    const struct remat_problem *p = c->problem;
    int64_t limit = (INT64_C(1) << UNITS_LOG) + 1;
    for (size_t a = 0; a < c->flow.arcs.count; a += 2)
        remat_flow_set(&c->flow, (uint32_t)a, REMAT_FLOW_UNBOUNDED);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (c->side[v] == DESCENDANT)
            continue;
        double price = is_free(c, v) ? 0 : floor(lambda * (double)p->bytes[v]);
        int64_t time = c->side[v] == ANCESTOR ? (int64_t)(c->charge[v] << c->shift) : 0;
        if (!has_to_be_there(c, v))
            remat_flow_set(&c->flow, c->need_arc[v], 0);
        if (c->fixed[v] != REMAT_CUT_DROPPED)
            remat_flow_set(&c->flow, c->keep_arc[v],
                           price < (double)limit ? (int64_t)price : limit);
        remat_flow_set(&c->flow, c->run_arc[v], time);
    }
}

/* A cut's line: `bound` is proven, in units; `time` and `kept` are what its choice takes. */
struct line {
    double bound, time, kept;
};

/* The dual at lambda. */
static struct line cut_at(struct remat_cut *c, double lambda)
{
    const struct remat_problem *p = c->problem;
    set_capacities(c, lambda);
    int64_t flow = remat_flow_run(&c->flow, 2 * p->node_count, 2 * p->node_count + 1);
    c->steps += c->flow.steps;
    c->flow.steps = 0;
    /* Both terms are rounded against us: doubles carry 53 bits, units may have a few more. */
    struct line line = {.bound = (double)flow * (1 - 0x1p-50) -
                                 lambda * (double)c->room * (1 + 0x1p-50)};
    memset(c->keep, 0, p->node_count * sizeof *c->keep);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (c->side[v] == DESCENDANT || c->flow.level[2 * v] == UINT32_MAX)
            continue;
        c->keep[v] = c->flow.level[2 * v + 1] == UINT32_MAX;
        if (c->keep[v])
            line.kept += is_free(c, v) ? 0 : (double)p->bytes[v];
        else if (c->side[v] == ANCESTOR)
            line.time += ldexp((double)c->charge[v], c->shift);
    }
    return line;
}

static void swap(bool **a, bool **b)
{
    bool *c = *a;
    *a = *b;
    *b = c;
}

double remat_cut_bound(struct remat_cut *c)
{
    const struct remat_problem *p = c->problem;
    double room = (double)c->room;
    /* Two lines above the dual: the cheapest cut without a price, recompute everything. */
    struct line less = {0};
    if (!c->built)
        build(c);
    memset(c->keep_less, 0, p->node_count * sizeof *c->keep_less);
    for (uint32_t v = 0; v < p->node_count; v++)
        less.time += c->side[v] == ANCESTOR ? ldexp((double)c->charge[v], c->shift) : 0;
    struct line more = cut_at(c, 0);
    double best = more.bound;
    c->solved = false;
    if (remat_deadline_count(c->deadline, p->node_count))
        return best;
    swap(&c->keep_more, &c->keep);
    c->solved = more.kept <= room;
    for (int step = 0;
         step < NEWTON_STEPS && more.kept > room && more.kept > less.kept && less.time > more.time;
         step++) {
        double lambda = (less.time - more.time) / (more.kept - less.kept);
        double crossing = more.time + lambda * (more.kept - room);
        struct line line = cut_at(c, lambda);
        best = fmax(best, line.bound);
        if (remat_deadline_count(c->deadline, p->node_count) ||
            line.bound >= crossing * (1 - 1e-9) || line.kept >= more.kept || line.kept == room)
            break;
        if (line.kept > room) {
            more = line;
            swap(&c->keep_more, &c->keep);
        } else if (line.kept > less.kept || line.time < less.time) {
            less = line;
            swap(&c->keep_less, &c->keep);
        } else {
            break;
        }
    }
    return best;
}

void remat_cut_create(struct remat_arena *arena, const struct remat_problem *p,
                      struct remat_deadline *deadline, struct remat_cut *c)
{
    *c = (struct remat_cut){.problem = p, .deadline = deadline};
    c->arena = remat_scratch_open(arena->ctx);
    REMAT_NEW(arena, c->side, p->node_count);
    REMAT_NEW(arena, c->needed, p->node_count);
    REMAT_NEW(arena, c->free_of_charge, p->node_count);
    REMAT_NEW(arena, c->fixed, p->node_count);
    REMAT_NEW(arena, c->keep, p->node_count);
    REMAT_NEW(arena, c->keep_more, p->node_count);
    REMAT_NEW(arena, c->keep_less, p->node_count);
    REMAT_NEW(arena, c->charge, p->node_count);
    set_charges(c);
}

void remat_cut_destroy(struct remat_cut *c)
{
    remat_scratch_close(c->arena);
}
