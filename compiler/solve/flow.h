/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum flow, minimum cut. */
#ifndef REMAT_FLOW_H
#define REMAT_FLOW_H

#include "deadline.h"
#include "unwind.h"

#define REMAT_FLOW_UNBOUNDED (INT64_MAX / 4)

struct remat_flow_arc {
    uint32_t to;
    int64_t residual; /* what may still be pushed */
};

/* Begins with arena, node count and deadline. Arcs are added in any order before the first
 * remat_flow_run; arc 2i + 1 is the reverse of arc 2i. Belongs to one thread. */
struct remat_flow {
    struct remat_arena *arena;
    uint32_t node_count;
    struct REMAT_LIST(struct remat_flow_arc) arcs;
    uint32_t *begin, *order; /* arcs by source node */
    uint32_t *level, *next, *queue, *path;
    struct remat_deadline *deadline; /* may be NULL */
    uint64_t steps;                  /* nodes and arcs looked at so far */
};

/* Room for so many arcs without their reverses; before the first one. */
void remat_flow_reserve(struct remat_flow *flow, size_t count);
/* Arc 2i is the i-th that is added. It has no capacity yet. */
void remat_flow_add(struct remat_flow *flow, uint32_t from, uint32_t to);
/* Capacity of an arc, with no flow on it. After a run all arcs of the network need this. */
static inline void remat_flow_set(struct remat_flow *flow, uint32_t arc, int64_t capacity)
{
    flow->arcs.items[arc].residual = capacity;
    flow->arcs.items[arc ^ 1].residual = 0;
}
/* The maximum flow. Afterwards flow->level[v] != UINT32_MAX exactly for the nodes on the source
 * side of the smallest minimum cut. After the deadline the flow is a smaller one, and the levels
 * mean nothing. */
int64_t remat_flow_run(struct remat_flow *flow, uint32_t source, uint32_t sink);

#endif
