/* At the first run of a node k nothing that descends from k has run, and at most `budget` bytes are
 * live. What the descendants read must come out of those bytes or be computed again: a minimum cut
 * prices the choice with lambda per byte, and lambda is raised by Newton's method on the concave
 * dual. docs/planning.md has the argument, design.md and notes/planning.md (3.7) its origin.
 *
 * Prices are integers, rounded down, so the bound holds without tolerances. */
#include "bound.h"

#include "flow.h"

#include <math.h>

enum { NEWTON_STEPS = 24, UNITS_LOG = 56, WORK_MAX = 400000000 };

struct cut {
    const struct remat_problem *problem;
    struct remat_arena arena; /* of the network, renewed for each node */
    int shift;                /* units per tick, as a power of two */
    uint8_t *side;            /* by node: ANCESTOR, DESCENDANT of k or 0 */
    bool *needed, *free_of_charge;
    bool *keep, *keep_more, *keep_less; /* by value, of the last cut and of the two lines */
    uint32_t k;
    uint64_t room;    /* bytes at the first run of k for values that are not surely there */
    uint64_t *charge; /* by node: ticks that making it once more costs at least */
    struct remat_flow flow;
    uint32_t *keep_arc, *run_arc, *need_arc;
};

enum { ANCESTOR = 1, DESCENDANT };

/* What a node costs at least each time it is made beyond its first run, so that a run in any way
 * costs no less than its node's least time and the charges of what it fuses. What may not run again
 * can cost anything. */
static void set_charges(struct cut *c)
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
    for (uint32_t i = p->way_begin[k]; i < p->way_begin[k + 1]; i++) {
        uint32_t w = p->ways[i], e = p->input_begin[w];
        while (e < p->input_begin[w + 1] && p->inputs[e] != u)
            e++;
        if (e == p->input_begin[w + 1])
            return false;
    }
    return true;
}

/* Marks ancestors and descendants of k, what descendants read, and what is live anyway. False when
 * that alone exceeds the budget. */
static bool look_from(struct cut *c, uint32_t k, uint64_t budget)
{
    const struct remat_problem *p = c->problem;
    uint64_t surely = p->bytes[k] + p->lasting[k], space = UINT64_MAX;
    memset(c->side, 0, p->node_count * sizeof *c->side);
    memset(c->needed, 0, p->node_count * sizeof *c->needed);
    memset(c->free_of_charge, 0, p->node_count * sizeof *c->free_of_charge);
    c->k = k;
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

static bool has_to_be_there(const struct cut *c, uint32_t v)
{
    return c->needed[v] && c->side[v] != DESCENDANT;
}

/* Bytes beyond the room if everything needed were kept; what makes a node worth trying. */
static uint64_t pressure(const struct cut *c)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < c->problem->node_count; v++)
        if (has_to_be_there(c, v) && !c->free_of_charge[v])
            bytes += c->problem->bytes[v];
    return bytes > c->room ? bytes - c->room : 0;
}

/* Nodes 2v: the value is there when a descendant (or a run) wants it; 2v + 1: it is computed. An
 * arc that leaves the source side is paid: keeping v costs its price, computing it its time. */
static remat_status make_network(struct cut *c)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    uint32_t n = p->node_count, source = 2 * n, sink = 2 * n + 1;
    struct remat_context *ctx = c->arena.ctx;
    remat_arena_release(&c->arena);
    remat_arena_init(&c->arena, ctx);
    REMAT_TRY(remat_flow_create(&c->arena, 2 * n + 2, &c->flow));
    REMAT_NEW(&c->arena, c->keep_arc, n);
    REMAT_NEW(&c->arena, c->run_arc, n);
    REMAT_NEW(&c->arena, c->need_arc, n);
    for (uint32_t v = 0; v < n; v++) {
        if (c->side[v] == DESCENDANT)
            continue;
        REMAT_TRY(remat_flow_add(&c->flow, source, 2 * v, 0, &c->need_arc[v]));
        REMAT_TRY(remat_flow_add(&c->flow, 2 * v, 2 * v + 1, 0, &c->keep_arc[v]));
        REMAT_TRY(remat_flow_add(&c->flow, 2 * v + 1, sink, 0, &c->run_arc[v]));
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            REMAT_TRY(
                remat_flow_add(&c->flow, 2 * v + 1, 2 * p->inputs[e], REMAT_FLOW_UNBOUNDED, NULL));
    }
fail:
    return st;
}

static void set_capacities(struct cut *c, double lambda)
{
    const struct remat_problem *p = c->problem;
    int64_t limit = (INT64_C(1) << UNITS_LOG) + 1;
    for (size_t a = 0; a < c->flow.arcs.count; a += 2)
        remat_flow_set(&c->flow, (uint32_t)a, REMAT_FLOW_UNBOUNDED);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (c->side[v] == DESCENDANT)
            continue;
        double price = c->free_of_charge[v] ? 0 : floor(lambda * (double)p->bytes[v]);
        int64_t time = c->side[v] == ANCESTOR ? (int64_t)(c->charge[v] << c->shift) : 0;
        if (!has_to_be_there(c, v))
            remat_flow_set(&c->flow, c->need_arc[v], 0);
        remat_flow_set(&c->flow, c->keep_arc[v], price < (double)limit ? (int64_t)price : limit);
        remat_flow_set(&c->flow, c->run_arc[v], time);
    }
}

/* The dual at lambda: `value` is a proven bound in units, `time` and `kept` the cut's line. */
static remat_status cut_at(struct cut *c, double lambda, double *value, double *time, double *kept)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    int64_t flow;
    set_capacities(c, lambda);
    REMAT_TRY(remat_flow_run(&c->flow, 2 * p->node_count, 2 * p->node_count + 1, &flow));
    /* Both terms are rounded against us: doubles carry 53 bits, units may have a few more. */
    *value = (double)flow * (1 - 0x1p-50) - lambda * (double)c->room * (1 + 0x1p-50);
    *time = *kept = 0;
    memset(c->keep, 0, p->node_count * sizeof *c->keep);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (c->side[v] == DESCENDANT || c->flow.level[2 * v] == UINT32_MAX)
            continue;
        c->keep[v] = c->flow.level[2 * v + 1] == UINT32_MAX;
        if (c->keep[v])
            *kept += c->free_of_charge[v] ? 0 : (double)p->bytes[v];
        else if (c->side[v] == ANCESTOR)
            *time += ldexp((double)c->charge[v], c->shift);
    }
fail:
    return st;
}

/* The best bound from the first run of k, in units. */
static remat_status bound_at(struct cut *c, double *best)
{
    remat_status st = REMAT_OK;
    const struct remat_problem *p = c->problem;
    double room = (double)c->room;
    /* Two lines above the dual: keep everything, recompute everything. */
    double time_low = 0, kept_low = 0, time_high = 0, kept_high = 0;
    *best = 0;
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (c->side[v] == ANCESTOR)
            time_high += ldexp((double)c->charge[v], c->shift);
        if (has_to_be_there(c, v) && !c->free_of_charge[v])
            kept_low += (double)p->bytes[v];
    }
    if (kept_low <= room)
        return REMAT_OK;
    memset(c->keep_more, 1, p->node_count * sizeof *c->keep);
    memset(c->keep_less, 0, p->node_count * sizeof *c->keep);
    REMAT_TRY(make_network(c));
    for (int step = 0; step < NEWTON_STEPS; step++) {
        double value, time, kept;
        double lambda = (time_high - time_low) / (kept_low - kept_high);
        double crossing = time_low + lambda * (kept_low - room);
        REMAT_TRY(cut_at(c, lambda, &value, &time, &kept));
        if (value > *best)
            *best = value;
        if (value >= crossing * (1 - 1e-9) || kept >= kept_low || kept == room)
            break;
        if (kept > room) {
            time_low = time;
            kept_low = kept;
            memcpy(c->keep_more, c->keep, p->node_count * sizeof *c->keep);
        } else if (kept > kept_high || time < time_high) {
            time_high = time;
            kept_high = kept;
            memcpy(c->keep_less, c->keep, p->node_count * sizeof *c->keep);
        } else {
            break;
        }
        if (kept_low <= kept_high)
            break;
    }
fail:
    return st;
}

/* --- which nodes to try: evenly spread over those under pressure, then around the best --- */

struct candidates {
    uint32_t *items, count;
    double *values; /* negative: not tried */
};

static remat_status find_candidates(struct cut *c, uint64_t budget, struct remat_arena *arena,
                                    struct candidates *out)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, out->items, c->problem->node_count);
    REMAT_NEW(arena, out->values, c->problem->node_count);
    out->count = 0;
    const struct remat_problem *p = c->problem;
    uint64_t work = (uint64_t)p->node_count * (p->node_count + p->edge_count);
    uint32_t stride = (uint32_t)(1 + work / WORK_MAX);
    for (uint32_t k = stride / 2; k < p->node_count; k += stride) {
        if (p->fusible[k] || !look_from(c, k, budget) || pressure(c) == 0)
            continue;
        out->values[out->count] = -1;
        out->items[out->count++] = k;
    }
fail:
    return st;
}

static remat_status try_candidate(struct cut *c, uint64_t budget, struct candidates *all,
                                  uint32_t i, uint32_t *best)
{
    remat_status st = REMAT_OK;
    if (all->values[i] >= 0)
        return REMAT_OK;
    look_from(c, all->items[i], budget);
    REMAT_TRY(bound_at(c, &all->values[i]));
    if (*best == UINT32_MAX || all->values[i] > all->values[*best])
        *best = i;
fail:
    return st;
}

static remat_status try_candidates(struct cut *c, uint64_t budget, struct candidates *all,
                                   uint32_t cuts_max, struct remat_deadline *deadline,
                                   uint32_t *best)
{
    remat_status st = REMAT_OK;
    uint32_t stride = cuts_max ? (all->count + cuts_max - 1) / cuts_max : 0;
    *best = UINT32_MAX;
    for (uint32_t i = stride / 2; stride && i < all->count; i += stride) {
        if (remat_deadline_expired(deadline))
            return REMAT_OK;
        REMAT_TRY(try_candidate(c, budget, all, i, best));
    }
    for (; stride > 1 && *best != UINT32_MAX; stride = (stride + 1) / 2) {
        uint32_t middle = *best, reach = stride / 2;
        if (remat_deadline_expired(deadline))
            return REMAT_OK;
        if (middle >= reach)
            REMAT_TRY(try_candidate(c, budget, all, middle - reach, best));
        if (middle + reach < all->count)
            REMAT_TRY(try_candidate(c, budget, all, middle + reach, best));
    }
fail:
    return st;
}

double remat_bound_from_ticks(const struct remat_problem *p, uint64_t ticks)
{
    double time = p->least_time + (double)ticks * p->tick;
    return p->tick == 1 ? time : time * (1 - 0x1p-48); /* sums of fractions are rounded */
}

remat_status remat_bound_time(struct remat_arena *arena, const struct remat_problem *p,
                              uint64_t budget, uint32_t cuts_max, struct remat_deadline *deadline,
                              struct remat_bound *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena own;
    struct cut c = {.problem = p};
    struct candidates all;
    uint32_t best;
    remat_arena_init(&own, arena->ctx);
    remat_arena_init(&c.arena, arena->ctx);
    *out = (struct remat_bound){.time = p->least_time, .node = UINT32_MAX};
    REMAT_NEW(&own, c.side, p->node_count);
    REMAT_NEW(&own, c.needed, p->node_count);
    REMAT_NEW(&own, c.free_of_charge, p->node_count);
    REMAT_NEW(&own, c.keep, p->node_count);
    REMAT_NEW(&own, c.charge, p->node_count);
    set_charges(&c);
    REMAT_NEW(arena, c.keep_more, p->node_count);
    REMAT_NEW(arena, c.keep_less, p->node_count);
    REMAT_TRY(find_candidates(&c, budget, &own, &all));
    REMAT_TRY(try_candidates(&c, budget, &all, cuts_max, deadline, &best));
    if (best != UINT32_MAX && all.values[best] > 0) {
        out->node = all.items[best];
        look_from(&c, out->node, budget);
        REMAT_TRY(bound_at(&c, &all.values[best])); /* for its two cuts */
        out->keep_more = c.keep_more;
        out->keep_less = c.keep_less;
        out->ticks = (uint64_t)ceil(ldexp(all.values[best], -c.shift));
        out->time = remat_bound_from_ticks(p, out->ticks);
    }
fail:
    remat_arena_release(&own);
    remat_arena_release(&c.arena);
    return st;
}
