/* SPDX-License-Identifier: Apache-2.0 */
/* Represents a choice by counts of the demands for each node, so that adding or removing an item
 * only touches what depends on it. The counts are exact because dependences have no cycle. */
#include "border.h"

#include "decision.h"

struct remat_border_choice remat_border_follow(struct remat_arena *arena,
                                               const struct remat_border *border,
                                               const uint8_t *times)
{
    struct demand {
        remat_item item;
        uint8_t round;
    };
    struct REMAT_LIST(struct demand) queue = {0};
    bool *run[REMAT_ROUNDS_MAX]; /* by task */
    for (uint32_t r = 0; r < REMAT_ROUNDS_MAX; r++)
        REMAT_NEW(arena, run[r], border->task_count);
    for (remat_item i = {0}; i.i < border->item_count; i.i++)
        if (border->items[i.i].wanted)
            REMAT_PUSH(arena, &queue, ((struct demand){i, REMAT_ROUNDS_MAX}));
    while (queue.count > 0) {
        struct demand d = queue.items[--queue.count];
        remat_task task = border->items[d.item.i].task;
        const struct remat_border_task *t = &border->tasks[task.i];
        uint8_t round = times[d.item.i] < d.round ? times[d.item.i] : d.round;
        if (round == 0 || run[round - 1][task.i])
            continue;
        run[round - 1][task.i] = true;
        for (uint32_t e = t->input_begin; e < t->input_end; e++)
            REMAT_PUSH(arena, &queue, ((struct demand){border->inputs[e], round}));
    }
    for (uint32_t t = 0; t < border->task_count; t++) {
        bool first = run[0][t], second = run[1][t];
        run[0][t] = first || second;
        run[1][t] = first && second;
    }
    return (struct remat_border_choice){.run = run[0], .again = run[1]};
}

struct count_change { /* of a count, by one */
    remat_border_node node;
    uint32_t round; /* of a demand for an item; 0: the node holds */
    bool more;
};

struct counts {
    struct remat_arena *arena;
    const struct remat_border *border;
    uint8_t *times;                      /* by item */
    uint32_t *demands[REMAT_ROUNDS_MAX]; /* by item: tasks that read it in the round */
    uint32_t *askers[REMAT_ROUNDS_MAX];  /* by task: demands for its run in the round */
    uint32_t *holders;                   /* by node: premises that make it hold */
    uint32_t *end_begin, *ends; /* by node: its ends of arcs; 2a starts arc a, 2a + 1 ends it */
    int64_t cost_ps;
    struct REMAT_LIST(struct count_change) pending;
};

static void push(struct counts *c, remat_border_node node, uint32_t round, bool more)
{
    REMAT_PUSH(c->arena, &c->pending, ((struct count_change){node, round, more}));
}

/* Counts up or down; true if that leaves or reaches 0. */
static bool turns(uint32_t *count, bool more)
{
    return more ? (*count)++ == 0 : --*count == 0;
}

static void charge(struct counts *c, int64_t ps, bool more)
{
    c->cost_ps += more ? ps : -ps;
}

static void change_holder(struct counts *c, remat_border_node node, bool more)
{
    const struct remat_border *b = c->border;
    if (!turns(&c->holders[node.i], more))
        return;
    if (node.i >= b->item_count + b->task_count)
        charge(c, b->charge_ps[node.i - b->item_count - b->task_count], more);
    else if (node.i >= b->item_count)
        charge(c, b->tasks[node.i - b->item_count].cost_ps, more);
    for (uint32_t e = c->end_begin[node.i]; e < c->end_begin[node.i + 1]; e++) {
        const struct remat_border_arc *arc = &b->arcs[c->ends[e] / 2];
        if (arc->ps > 0 && arc->from.i == node.i && c->holders[arc->to.i] == 0)
            charge(c, arc->ps, more);
        if (arc->ps > 0 && arc->to.i == node.i && c->holders[arc->from.i] > 0)
            charge(c, arc->ps, !more);
        if (arc->ps == REMAT_BORDER_RULE && arc->from.i == node.i)
            push(c, arc->to, 0, more);
    }
}

/* Changes the demand for a task's run in a round. */
static void change_asker(struct counts *c, remat_task task, uint32_t round, bool more)
{
    const struct remat_border_task *t = &c->border->tasks[task.i];
    if (!turns(&c->askers[round - 1][task.i], more))
        return;
    bool other = c->askers[REMAT_ROUNDS_MAX - round][task.i] > 0;
    if (other)
        charge(c, t->again_ps, more);
    else
        push(c, remat_border_task_node(c->border, task), 0, more);
    for (uint32_t e = t->input_begin; e < t->input_end; e++) {
        remat_border_node input = remat_border_item_node(c->border->inputs[e]);
        push(c, input, round, more);
        if (!other)
            push(c, input, 0, more);
    }
}

static uint32_t round_of(const struct counts *c, remat_item item, uint32_t round)
{
    return c->times[item.i] < round ? c->times[item.i] : round;
}

static void propagate(struct counts *c)
{
    while (c->pending.count > 0) {
        struct count_change change = c->pending.items[--c->pending.count];
        if (change.round == 0) {
            change_holder(c, change.node, change.more);
            continue;
        }
        remat_item item = {change.node.i};
        c->demands[change.round - 1][item.i] += change.more ? 1 : UINT32_MAX;
        uint32_t round = round_of(c, item, change.round);
        if (round > 0)
            change_asker(c, c->border->items[item.i].task, round, change.more);
    }
}

/* Sets how often the item is recomputed at most. */
static void change_times(struct counts *c, remat_item item, uint8_t times)
{
    remat_task task = c->border->items[item.i].task;
    for (int more = 0; more < 2; more++) {
        for (uint32_t r = 1; r <= REMAT_ROUNDS_MAX; r++)
            for (uint32_t d = 0; round_of(c, item, r) > 0 && d < c->demands[r - 1][item.i]; d++)
                change_asker(c, task, round_of(c, item, r), more);
        if (!more)
            c->times[item.i] = times;
    }
    propagate(c);
}

static void count_all(struct remat_arena *arena, const struct remat_border *border,
                      const uint8_t *times, struct counts *c)
{
    uint32_t nodes = border->item_count + border->task_count + border->charge_count;
    uint32_t *node_of;
    *c = (struct counts){.arena = arena, .border = border, .cost_ps = border->constant_ps};
    c->times = remat_copy(arena, times, border->item_count, sizeof *times);
    for (uint32_t r = 0; r < REMAT_ROUNDS_MAX; r++) {
        REMAT_NEW(arena, c->demands[r], border->item_count);
        REMAT_NEW(arena, c->askers[r], border->task_count);
    }
    REMAT_NEW(arena, c->holders, nodes);
    REMAT_NEW(arena, node_of, 2 * (size_t)border->arc_count);
    for (uint32_t a = 0; a < border->arc_count; a++) {
        node_of[2 * a] = border->arcs[a].from.i;
        node_of[2 * a + 1] = border->arcs[a].to.i;
    }
    c->end_begin = remat_group_by_key(arena, node_of, 2 * border->arc_count, nodes, &c->ends);
    for (remat_item i = {0}; i.i < border->item_count; i.i++) {
        if (!border->items[i.i].wanted)
            continue;
        push(c, remat_border_item_node(i), 0, true);
        push(c, remat_border_item_node(i), REMAT_ROUNDS_MAX, true);
    }
    propagate(c);
}

void remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                            const uint8_t *times, const uint8_t *otherwise, int64_t *extra_ps)
{
    struct counts counts;
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    count_all(scratch, border, times, &counts);
    int64_t as_is_ps = counts.cost_ps;
    for (remat_item i = {0}; i.i < border->item_count; i.i++) {
        change_times(&counts, i, times[i.i] ? 0 : otherwise[i.i]);
        int64_t changed_ps = counts.cost_ps;
        extra_ps[i.i] = times[i.i] ? as_is_ps - changed_ps : changed_ps - as_is_ps;
        change_times(&counts, i, times[i.i]);
    }
    remat_scratch_close(scratch);
}
