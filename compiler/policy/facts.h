/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the values of a graph that decisions rest on. */
#ifndef REMAT_POLICY_FACTS_H
#define REMAT_POLICY_FACTS_H

#include "graph.h"

struct remat_facts {
    remat_value *root;  /* by value: whose bytes it uses, itself unless a view */
    bool *forward;      /* by value: owns bytes and is computed by an original forward node */
    bool *recomputable; /* by value: forward, and its op may run again on what it reads */
    bool *needed;       /* by root: the backward pass or the optimizer reads it */
    bool *output;       /* by root: an output of the graph */
    bool *may_shard;    /* by value: recomputable, and all ranks along "tp" have the same, dense, of
                           which each could save an equal part */
};

void remat_facts_create(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_facts *out);

#endif
