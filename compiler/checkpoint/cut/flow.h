/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum flow, minimum cut. */
#ifndef REMAT_FLOW_H
#define REMAT_FLOW_H

#include "deadline.h"
#include "unwind.h"

#include <assert.h>

#define REMAT_FLOW_UNBOUNDED (INT64_MAX / 4)

REMAT_INDEX(remat_flow_node);

struct remat_flow_ends {
    remat_flow_node from, to;
};

/* Begins with arena, node count and deadline. All arcs are added, then come any number of runs.
 * Belongs to one thread. */
struct remat_flow {
    struct remat_arena *arena;
    uint32_t node_count;
    struct REMAT_LIST(struct remat_flow_ends) added;
    struct remat_flow_arc {
        remat_flow_node to;
        uint32_t reverse;   /* of arcs */
        int64_t residual;   /* what may still be pushed */
    } * arcs;               /* and their reverses, by the node that they leave */
    uint32_t *begin;        /* by node, and one more: of arcs */
    uint32_t *place;        /* by number of an added arc: of arcs */
    uint32_t *level, *next; /* by node; next: of arcs */
    remat_flow_node *queue;
    uint32_t *path;                  /* of arcs */
    struct remat_deadline *deadline; /* may be NULL */
    uint64_t steps;                  /* nodes and arcs looked at so far */
};

/* Room for so many arcs; before the first one. */
void remat_flow_reserve(struct remat_flow *flow, size_t count);
static inline void remat_flow_add(struct remat_flow *flow, remat_flow_node from, remat_flow_node to)
{
    assert(from.i < flow->node_count && to.i < flow->node_count);
    REMAT_PUSH(flow->arena, &flow->added, ((struct remat_flow_ends){from, to}));
}
/* After the last arc. None has a capacity yet. */
void remat_flow_index(struct remat_flow *flow);

/* Capacity of the added arc with this number, with no flow on it. Before a run all arcs of the
 * network get this, or all of them the following. */
static inline void remat_flow_set(struct remat_flow *flow, uint32_t number, int64_t capacity)
{
    assert(number < flow->added.count && capacity >= 0);
    struct remat_flow_arc *arc = &flow->arcs[flow->place[number]];
    arc->residual = capacity;
    flow->arcs[arc->reverse].residual = 0;
}
/* At least the flow that is on it, which stays: the next run adds to the value of the last. */
static inline void remat_flow_raise(struct remat_flow *flow, uint32_t number, int64_t capacity)
{
    assert(number < flow->added.count);
    struct remat_flow_arc *arc = &flow->arcs[flow->place[number]];
    arc->residual = capacity - flow->arcs[arc->reverse].residual;
}
/* The maximum flow, less what was on the arcs before. Afterwards flow->level[v.i] != UINT32_MAX
 * exactly for the nodes on the source side of the smallest minimum cut. After the deadline the flow
 * is a smaller one, and the levels mean nothing. */
int64_t remat_flow_run(struct remat_flow *flow, remat_flow_node source, remat_flow_node sink);

#endif
