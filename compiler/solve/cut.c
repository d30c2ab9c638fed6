/* SPDX-License-Identifier: Apache-2.0 */
/* Items are the values, tasks their runs. */
#include "cut.h"

enum { UNITS_LOG = 56, SHIFT_MAX = 20 };
enum { ANCESTOR = 1, DESCENDANT }; /* sides */

/* The least cost of a node each time it is made beyond its first run, so that a run in any way
 * costs no less than its node's least time and the charges of what it fuses. A node that may not
 * run again can cost anything. */
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
    while (c->shift < SHIFT_MAX && sum >> (UNITS_LOG - c->shift - 1) == 0)
        c->shift++;
    for (uint32_t v = 0; v < p->node_count; v++)
        c->charge[v] <<= c->shift;
}

struct remat_cut remat_cut_create(struct remat_arena *arena, const struct remat_problem *p)
{
    struct remat_cut c = {.problem = p,
                          .border = {.item_count = p->node_count, .task_count = p->node_count}};
    remat_item *inputs;
    REMAT_ROOM(arena, inputs, p->input_begin[p->node_count]);
    for (uint32_t e = 0; e < p->input_begin[p->node_count]; e++)
        inputs[e] = (remat_item){p->inputs[e]};
    c.border.inputs = inputs;
    REMAT_NEW(arena, c.border.items, p->node_count);
    REMAT_NEW(arena, c.border.tasks, p->node_count);
    REMAT_NEW(arena, c.charge, p->node_count);
    REMAT_NEW(arena, c.side, p->node_count);
    set_charges(&c);
    return c;
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
    struct remat_border_item *items = c->border.items;
    uint64_t surely = p->bytes[k] + p->lasting[k], space = UINT64_MAX;
    memset(c->side, 0, p->node_count * sizeof *c->side);
    for (uint32_t v = 0; v < p->node_count; v++)
        items[v] = (struct remat_border_item){.bytes = p->bytes[v], .task = {v}};
    for (uint32_t i = p->way_begin[k]; i < p->way_begin[k + 1]; i++)
        space = p->workspace[p->ways[i]] < space ? p->workspace[p->ways[i]] : space;
    items[k].bytes = 0;
    for (uint32_t e = p->input_begin[k]; e < p->input_begin[k + 1]; e++)
        if (is_always_read(p, k, p->inputs[e])) {
            items[p->inputs[e]].bytes = 0;
            surely += p->bytes[p->inputs[e]];
        }
    c->side[k] = ANCESTOR;
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
            items[p->inputs[e]].wanted = true;
    }
    for (uint32_t v = 0; v < p->node_count; v++) {
        bool after = c->side[v] == DESCENDANT; /* no part of the problem */
        items[v].wanted &= !after;
        c->border.tasks[v] = (struct remat_border_task){
            .cost_ps = c->side[v] == ANCESTOR ? (int64_t)c->charge[v] : 0,
            .input_begin = p->input_begin[v],
            .input_end = p->input_begin[v + !after]};
    }
    if (surely + space > budget)
        return false;
    c->room = budget - surely - space;
    return true;
}

uint64_t remat_cut_pressure(const struct remat_cut *c)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < c->problem->node_count; v++)
        bytes += c->border.items[v].wanted ? c->border.items[v].bytes : 0;
    return bytes > c->room ? bytes - c->room : 0;
}
