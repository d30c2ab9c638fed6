/* Dijkstra over pairs of sets. Free a value: costs nothing. Run a node: its inputs are live, it is
 * not, and it fits beside what is live. */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>

enum { SETS = 1 << ORACLE_NODES_MAX, STATES = SETS * SETS, EDGES_MAX = STATES };

struct entry {
    uint64_t distance;
    uint32_t state; /* live set * SETS + done set */
};

struct oracle {
    const struct remat_problem *problem;
    uint64_t budget;
    bool want_peak; /* distance is the largest live sum, else the time */
    uint32_t inputs[ORACLE_NODES_MAX];
    uint64_t *distance;
    struct entry *heap;
    uint32_t count;
};

static void push(struct oracle *o, uint32_t state, uint64_t distance)
{
    if (distance >= o->distance[state])
        return;
    if (o->count == EDGES_MAX) {
        printf("oracle: heap is full\n");
        exit(2);
    }
    o->distance[state] = distance;
    uint32_t at = o->count++;
    for (; at > 0 && o->heap[(at - 1) / 2].distance > distance; at = (at - 1) / 2)
        o->heap[at] = o->heap[(at - 1) / 2];
    o->heap[at] = (struct entry){distance, state};
}

static struct entry pop(struct oracle *o)
{
    struct entry top = o->heap[0], last = o->heap[--o->count];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < o->count) {
        if (child + 1 < o->count && o->heap[child + 1].distance < o->heap[child].distance)
            child++;
        if (o->heap[child].distance >= last.distance)
            break;
        o->heap[at] = o->heap[child];
        at = child;
    }
    o->heap[at] = last;
    return top;
}

static uint64_t live_bytes(const struct remat_problem *p, uint32_t live)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < p->node_count; v++)
        bytes += live >> v & 1 ? p->bytes[v] : 0;
    return bytes;
}

static void expand(struct oracle *o, struct entry e)
{
    const struct remat_problem *p = o->problem;
    uint32_t live = e.state / SETS, done = e.state % SETS;
    for (uint32_t v = 0; v < p->node_count; v++) {
        uint32_t bit = 1u << v;
        if (live & bit) {
            push(o, (live & ~bit) * SETS + done, e.distance);
            continue;
        }
        uint64_t bytes = live_bytes(p, live | bit);
        if ((live & o->inputs[v]) != o->inputs[v] || bytes > o->budget)
            continue;
        uint64_t distance = e.distance + (uint64_t)p->time[v];
        if (o->want_peak)
            distance = bytes > e.distance ? bytes : e.distance;
        push(o, (live | bit) * SETS + (done | bit), distance);
    }
}

static uint64_t search(struct oracle *o)
{
    const struct remat_problem *p = o->problem;
    uint32_t all = (1u << p->node_count) - 1;
    uint64_t result = ORACLE_INFEASIBLE;
    for (uint32_t v = 0; v < p->node_count; v++)
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            o->inputs[v] |= 1u << p->inputs[e];
    o->distance = malloc(STATES * sizeof *o->distance);
    o->heap = malloc(EDGES_MAX * sizeof *o->heap);
    if (!o->distance || !o->heap)
        exit(2);
    for (uint32_t live = 0; live <= all; live++) /* only the states of this problem */
        memset(o->distance + (size_t)live * SETS, 0xff, (all + 1) * sizeof *o->distance);
    push(o, 0, 0);
    while (o->count && result == ORACLE_INFEASIBLE) {
        struct entry e = pop(o);
        if (e.distance > o->distance[e.state])
            continue;
        if (e.state % SETS == all)
            result = e.distance;
        else
            expand(o, e);
    }
    free(o->distance);
    free(o->heap);
    return result;
}

uint64_t oracle_time(const struct remat_problem *problem, uint64_t budget)
{
    struct oracle o = {.problem = problem, .budget = budget};
    return search(&o);
}

uint64_t oracle_peak(const struct remat_problem *problem)
{
    struct oracle o = {.problem = problem, .budget = UINT64_MAX, .want_peak = true};
    return search(&o);
}
