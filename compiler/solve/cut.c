/* SPDX-License-Identifier: Apache-2.0 */
/* Items are the values, tasks their runs. */
#include "cut.h"

#include <assert.h>

enum { UNITS_LOG = 56, SHIFT_MAX = 20 };
enum { ANCESTOR = 1, DESCENDANT }; /* sides */

/* The least cost of a node each time it is made beyond its first run, so that a run in any mode
 * costs no less than its node's least time and the charges of what it fuses. A node that may not
 * run again can cost anything. */
static void set_charges(struct remat_cut *c)
{
    const struct remat_problem *p = c->problem;
    uint64_t most = ((UINT64_C(1) << (UNITS_LOG - 1)) - p->total_ticks) / p->node_count, sum = 0;
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        c->charge[v.i] =
            p->once[v.i] ? (p->total_ticks < most ? p->total_ticks : most) : p->least_ticks[v.i];
    for (remat_mode_id w = {p->node_count}; w.i < p->mode_count; w.i++) {
        uint64_t extra = p->ticks[w.i] - p->least_ticks[p->node_of[w.i].i], together = 0;
        for (uint32_t i = p->fused_begin[w.i]; i < p->fused_begin[w.i + 1]; i++)
            together += c->charge[p->fused[i].i];
        for (uint32_t i = p->fused_begin[w.i]; together > extra && i < p->fused_begin[w.i + 1];
             i++) {
            uint64_t *charge = &c->charge[p->fused[i].i];
            *charge =
                (uint64_t)((double)*charge * ((double)extra / (double)together) * (1 - 0x1p-50));
        }
    }
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        sum += c->charge[v.i];
    while (c->shift < SHIFT_MAX && sum >> (UNITS_LOG - c->shift - 1) == 0)
        c->shift++;
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        c->charge[v.i] <<= c->shift;
}

struct remat_cut remat_cut_create(struct remat_arena *arena, const struct remat_problem *p)
{
    struct remat_cut c = {.problem = p,
                          .border = {.item_count = p->node_count, .task_count = p->node_count}};
    remat_item *inputs;
    REMAT_NEW_UNINITIALIZED(arena, inputs, p->input_begin[p->node_count]);
    for (uint32_t e = 0; e < p->input_begin[p->node_count]; e++)
        inputs[e] = (remat_item){p->inputs[e].i};
    c.border.inputs = inputs;
    REMAT_NEW(arena, c.border.items, p->node_count);
    REMAT_NEW(arena, c.border.tasks, p->node_count);
    REMAT_NEW(arena, c.charge, p->node_count);
    REMAT_NEW(arena, c.side, p->node_count);
    set_charges(&c);
    return c;
}

/* An input of k in each of its modes. */
static bool is_always_read(const struct remat_problem *p, remat_problem_node k,
                           remat_problem_node u)
{
    for (uint32_t i = p->mode_begin[k.i]; i < p->mode_begin[k.i + 1]; i++)
        if (!remat_problem_reads(p, p->modes[i], u))
            return false;
    return true;
}

bool remat_cut_look(struct remat_cut *c, remat_problem_node k, uint64_t budget)
{
    assert(k.i < c->problem->node_count);
    const struct remat_problem *p = c->problem;
    struct remat_border_item *items = c->border.items;
    uint64_t surely = p->bytes[k.i] + p->lasting[k.i], space = UINT64_MAX;
    memset(c->side, 0, p->node_count * sizeof *c->side);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        items[v.i] = (struct remat_border_item){.bytes = p->bytes[v.i], .task = {v.i}};
    for (uint32_t i = p->mode_begin[k.i]; i < p->mode_begin[k.i + 1]; i++)
        space = p->workspace[p->modes[i].i] < space ? p->workspace[p->modes[i].i] : space;
    items[k.i].bytes = 0;
    for (uint32_t e = p->input_begin[k.i]; e < p->input_begin[k.i + 1]; e++)
        if (is_always_read(p, k, p->inputs[e])) {
            items[p->inputs[e].i].bytes = 0;
            surely += p->bytes[p->inputs[e].i];
        }
    c->side[k.i] = ANCESTOR;
    for (remat_problem_node v = {k.i + 1}; v.i-- > 0;) {
        if (!c->side[v.i])
            continue;
        surely += v.i != k.i && !p->fusible[v.i] ? p->lasting[v.i] : 0;
        for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++)
            c->side[p->inputs[e].i] = ANCESTOR;
    }
    c->side[k.i] = 0;
    for (remat_problem_node v = {k.i + 1}; v.i < p->node_count; v.i++) {
        for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++)
            if (p->inputs[e].i == k.i || c->side[p->inputs[e].i] == DESCENDANT)
                c->side[v.i] = DESCENDANT;
        for (uint32_t e = p->input_begin[v.i]; c->side[v.i] && e < p->input_begin[v.i + 1]; e++)
            items[p->inputs[e].i].wanted = true;
    }
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        bool after = c->side[v.i] == DESCENDANT; /* no part of the problem */
        items[v.i].wanted &= !after;
        c->border.tasks[v.i] = (struct remat_border_task){
            .cost_ps = c->side[v.i] == ANCESTOR ? (int64_t)c->charge[v.i] : 0,
            .input_begin = p->input_begin[v.i],
            .input_end = p->input_begin[v.i + !after]};
    }
    if (surely + space > budget)
        return false;
    c->room = budget - surely - space;
    return true;
}

uint64_t remat_cut_pressure(const struct remat_cut *c)
{
    uint64_t bytes = 0;
    for (remat_problem_node v = {0}; v.i < c->problem->node_count; v.i++)
        bytes += c->border.items[v.i].wanted ? c->border.items[v.i].bytes : 0;
    return bytes > c->room ? bytes - c->room : 0;
}
