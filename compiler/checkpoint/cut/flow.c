/* SPDX-License-Identifier: Apache-2.0 */
/* Dinic's algorithm with an explicit path instead of recursion. */
#include "flow.h"

enum { POLL = 4096 };

void remat_flow_reserve(struct remat_flow *f, size_t count)
{
    f->added.capacity = count;
    REMAT_NEW_UNINITIALIZED(f->arena, f->added.items, count);
}

void remat_flow_index(struct remat_flow *f)
{
    struct remat_arena *scratch = remat_scratch_open(f->arena->ctx);
    remat_flow_node *tails;
    uint32_t *order, *place, count = 2 * (uint32_t)f->added.count; /* 2 i + 1: reverse */
    REMAT_NEW_UNINITIALIZED(scratch, tails, count);
    REMAT_NEW_UNINITIALIZED(scratch, place, count);
    REMAT_NEW_UNINITIALIZED(f->arena, f->arcs, count);
    REMAT_NEW_UNINITIALIZED(f->arena, f->place, f->added.count);
    for (uint32_t i = 0; i < f->added.count; i++) {
        tails[2 * i] = f->added.items[i].from;
        tails[2 * i + 1] = f->added.items[i].to;
    }
    uint32_t *begin = remat_group_by_key(scratch, &tails->i, count, f->node_count, &order);
    f->begin = remat_copy(f->arena, begin, f->node_count + 1, sizeof *begin);
    for (uint32_t a = 0; a < count; a++)
        place[order[a]] = a;
    for (uint32_t a = 0; a < count; a++) {
        uint32_t reverse = order[a] ^ 1;
        f->arcs[a] = (struct remat_flow_arc){tails[reverse], place[reverse], 0};
    }
    for (uint32_t i = 0; i < f->added.count; i++)
        f->place[i] = place[2 * i];
    remat_scratch_close(scratch);
    REMAT_NEW(f->arena, f->level, f->node_count);
    REMAT_NEW(f->arena, f->next, f->node_count);
    REMAT_NEW(f->arena, f->queue, f->node_count);
    REMAT_NEW(f->arena, f->path, f->node_count);
}

static remat_flow_node tail_of(const struct remat_flow *f, uint32_t arc)
{
    return f->arcs[f->arcs[arc].reverse].to;
}

static bool is_over(struct remat_flow *f, uint64_t steps)
{
    f->steps += steps;
    return remat_deadline_count(f->deadline, steps);
}

/* Levels from the source, as far as the sink; false when it is not reached. */
static bool find_levels(struct remat_flow *f, remat_flow_node source, remat_flow_node sink)
{
    uint32_t head = 0, end = 0;
    uint64_t arcs = 0;
    memset(f->level, 0xff, f->node_count * sizeof *f->level);
    f->level[source.i] = 0;
    f->queue[end++] = source;
    while (head < end && f->level[sink.i] == UINT32_MAX) {
        remat_flow_node v = f->queue[head++];
        arcs += f->begin[v.i + 1] - f->begin[v.i];
        for (uint32_t i = f->begin[v.i]; i < f->begin[v.i + 1]; i++) {
            const struct remat_flow_arc *a = &f->arcs[i];
            if (a->residual > 0 && f->level[a->to.i] == UINT32_MAX) {
                f->level[a->to.i] = f->level[v.i] + 1;
                f->queue[end++] = a->to;
            }
        }
    }
    return !is_over(f, f->node_count + arcs) && f->level[sink.i] != UINT32_MAX;
}

/* Pushes along the path of `length` arcs; returns how much of the path stays usable. */
static uint32_t augment(struct remat_flow *f, uint32_t length, int64_t *value)
{
    int64_t least = INT64_MAX;
    uint32_t keep = 0;
    for (uint32_t i = 0; i < length; i++)
        if (f->arcs[f->path[i]].residual < least)
            least = f->arcs[f->path[i]].residual;
    for (uint32_t i = length; i-- > 0;) {
        struct remat_flow_arc *arc = &f->arcs[f->path[i]];
        arc->residual -= least;
        f->arcs[arc->reverse].residual += least;
        if (arc->residual == 0)
            keep = i;
    }
    *value += least;
    return keep;
}

/* A blocking flow of the level graph: no path of residual arcs, each to the next level, is left. */
static int64_t push_blocking_flow(struct remat_flow *f, remat_flow_node source,
                                  remat_flow_node sink)
{
    remat_flow_node v = source;
    uint32_t length = 0;
    uint64_t steps = 0;
    int64_t value = 0;
    memcpy(f->next, f->begin, f->node_count * sizeof *f->next);
    for (;;) {
        if (++steps >= POLL) {
            if (is_over(f, steps))
                return value;
            steps = 0;
        }
        if (v.i == sink.i) {
            steps += length;
            length = augment(f, length, &value);
            v = tail_of(f, f->path[length]);
            continue;
        }
        while (f->next[v.i] < f->begin[v.i + 1]) {
            const struct remat_flow_arc *a = &f->arcs[f->next[v.i]];
            if (a->residual > 0 && f->level[a->to.i] == f->level[v.i] + 1)
                break;
            f->next[v.i]++;
        }
        if (f->next[v.i] < f->begin[v.i + 1]) {
            f->path[length++] = f->next[v.i];
            v = f->arcs[f->next[v.i]].to;
        } else if (length == 0) {
            return value;
        } else {
            v = tail_of(f, f->path[--length]);
            f->next[v.i]++;
        }
    }
}

int64_t remat_flow_run(struct remat_flow *f, remat_flow_node source, remat_flow_node sink)
{
    assert(source.i != sink.i && source.i < f->node_count && sink.i < f->node_count);
    int64_t value = 0;
    while (find_levels(f, source, sink))
        value += push_blocking_flow(f, source, sink);
    return value;
}
