/* SPDX-License-Identifier: Apache-2.0 */
/* The planning problem as plain data: a graph of nodes with a time and a size each, and what a
 * compiler has to say about them besides.
 *
 * Meaning. Running a node needs the values of its inputs live; its own value occupies `bytes` from
 * the start of the run. A value is freed after its last use before its next production; a value
 * that nobody uses lives during its run only. Every node runs at least once, any number of times.
 * An input that is listed twice is one input. The peak of a sequence is its largest live sum during
 * any run, its time the sum over its runs.
 *
 * A node may have further ways to run it. Each has a time and a workspace of its own, and may make
 * some values inside: these occupy nothing, and their inputs are read instead ("recompute fused").
 * Making a value inside does not count as a run of its node. */
#ifndef REMAT_PROBLEM_H
#define REMAT_PROBLEM_H

#include "unwind.h"

#define REMAT_PROBLEM_NODES_MAX (1u << 20)
#define REMAT_PROBLEM_EDGES_MAX (1u << 24)          /* inputs, of ways and what they fuse too */
#define REMAT_PROBLEM_BYTES_MAX (UINT64_C(1) << 60) /* of everything together */

REMAT_INDEX(remat_problem_node);
REMAT_INDEX(remat_way_id); /* of all ways of a problem */

#define REMAT_NO_PROBLEM_NODE ((remat_problem_node){UINT32_MAX})
#define REMAT_NO_WAY          ((remat_way_id){UINT32_MAX})

/* Another way to run `node`. */
struct remat_way {
    remat_problem_node node;
    double time;
    uint64_t workspace;              /* bytes during such a run */
    const remat_problem_node *fused; /* nodes whose values are made inside; none twice */
    uint32_t fused_count;
};

/* The parts of a problem; everything is copied. Optional arrays may be NULL. */
struct remat_problem_parts {
    uint32_t node_count;
    const char *const *names; /* optional: else nodes are called by their numbers */
    const double *time;       /* finite, not negative */
    const uint64_t *bytes;
    const uint32_t *input_begin;      /* CSR */
    const remat_problem_node *inputs; /* earlier nodes, in any order */

    uint64_t static_bytes;     /* live all the time */
    const uint64_t *workspace; /* optional: bytes during a run of the node, beside its value */
    const uint64_t *lasting;   /* optional: bytes that appear at the first run and stay to the end:
                                  gradients, optimizer state */
    const bool *once;          /* optional: never runs again, so its value stays while needed */
    /* Optional: the value whose storage this one lies in (a view), else none; it has no bytes of
     * its own and keeps that one live. */
    const remat_problem_node *alias;
    const struct remat_way *ways;
    uint32_t way_count;
};

/* Immutable once made; may be shared between threads. Lies in the arena.
 *
 * Arrays are by node or by way. The ways 0 .. node_count - 1 run the nodes as given
 * (remat_given_way), the others follow; a sequence is a list of ways. */
struct remat_problem {
    uint32_t node_count, way_count, edge_count; /* edges: of the nodes as given */
    const double *time;                         /* by way */
    const uint64_t *bytes;                      /* by node */
    const uint32_t *input_begin;                /* CSR by way */
    const remat_problem_node *inputs;           /* ascending, smaller than the way's node */
    const uint32_t *user_begin;                 /* CSR by node */
    const remat_problem_node *users;            /* that read it as given; ascending */
    const remat_problem_node *node_of;          /* by way */
    const uint32_t *way_begin;                  /* CSR by node */
    const remat_way_id *ways;                   /* all its ways, the given one first */
    const uint32_t *fused_begin;                /* CSR by way */
    const remat_problem_node *fused;            /* ascending */
    const bool *fusible;                        /* by node: some way makes it inside */
    uint64_t static_bytes;
    const uint64_t *workspace; /* by way, static bytes included: they are there in every run */
    const uint64_t *lasting;   /* by node */
    const bool *once;          /* by node */
    bool has_lasting, has_once;
    double total_time, least_time; /* sums over nodes, as given and in their fastest ways */
    /* Times as whole numbers of `tick`, rounded down: what search and bound add up. The tick is 1
     * when all times are whole numbers. */
    const uint64_t *ticks;       /* by way */
    const uint64_t *least_ticks; /* by node */
    uint64_t total_ticks;        /* of the nodes as given */
    double tick;
};

/* Checks everything that parts and struct promise; a message names the node. */
remat_status remat_problem_create(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_problem_parts *parts,
                                  struct remat_problem *out);

/* How many of the items, which ascend, are below v. */
static inline size_t remat_count_below(const uint32_t *items, size_t count, uint32_t v)
{
    size_t low = 0;
    for (size_t half; count > 1; count -= half) { /* no branch: nothing predicts it */
        half = count / 2;
        low += half & -(size_t)(items[low + half - 1] < v);
    }
    return low + (count && items[low] < v);
}

static inline bool remat_contains(const remat_problem_node *nodes, size_t count,
                                  remat_problem_node v)
{
    size_t at = remat_count_below(&nodes->i, count, v.i);
    return at < count && nodes[at].i == v.i;
}

/* The way that runs the node as given. */
static inline remat_way_id remat_given_way(remat_problem_node node)
{
    return (remat_way_id){node.i};
}

static inline uint32_t remat_problem_input_count(const struct remat_problem *p, remat_way_id way)
{
    return p->input_begin[way.i + 1] - p->input_begin[way.i];
}
bool remat_problem_reads(const struct remat_problem *problem, remat_way_id way,
                         remat_problem_node node);
/* Bytes that are live during a run of the node in any schedule, whichever way is taken: inputs,
 * value, workspace. Of one way: the same for it. */
uint64_t remat_problem_working_set(const struct remat_problem *problem, remat_problem_node node);
uint64_t remat_problem_working_set_of_way(const struct remat_problem *problem, remat_way_id way);

/* Sequences: ways in the order of execution. */
struct remat_sequence REMAT_LIST(remat_way_id);

/* --- simulate.c: the effect of a sequence. The independent judge of all that the solver claims: it
 * shares no code with the search, and plans are accepted and printed with its figures only. --- */

struct remat_simulation {
    double time;
    uint64_t peak;
};

/* A result that fits is better than one that does not; then the faster, or the one with the lower
 * peak. */
static inline bool remat_is_better(const struct remat_simulation *a,
                                   const struct remat_simulation *b, uint64_t budget)
{
    bool fits = a->peak <= budget;
    if (fits != (b->peak <= budget))
        return fits;
    return fits ? a->time < b->time : a->peak < b->peak;
}

/* REMAT_ERROR_INVALID, naming position and node: an entry is no node, an input is not live at a
 * run, or a node never runs. */
remat_status remat_simulate(remat_context *ctx, const struct remat_problem *problem,
                            const remat_way_id *sequence, size_t length,
                            struct remat_simulation *out);

#endif
