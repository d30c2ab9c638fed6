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
 * A node may have further modes, as in multi-mode project scheduling. Each has a time and a
 * workspace of its own, and may make some values inside: these occupy nothing, and their inputs are
 * read instead ("recompute fused"). Making a value inside does not count as a run of its node. */
#ifndef REMAT_PROBLEM_H
#define REMAT_PROBLEM_H

#include "unwind.h"

#define REMAT_PROBLEM_NODES_MAX (1u << 20)
#define REMAT_PROBLEM_EDGES_MAX (1u << 24)          /* inputs, of modes and what they fuse too */
#define REMAT_PROBLEM_BYTES_MAX (UINT64_C(1) << 60) /* of everything together */

REMAT_INDEX(remat_problem_node);
REMAT_INDEX(remat_mode_id); /* of all modes of a problem */

#define REMAT_NO_PROBLEM_NODE ((remat_problem_node){UINT32_MAX})
#define REMAT_NO_MODE         ((remat_mode_id){UINT32_MAX})

/* Another mode of `node`. */
struct remat_mode {
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
    const struct remat_mode *modes;
    uint32_t mode_count;
};

/* Immutable once made; may be shared between threads. Lies in the arena.
 *
 * Arrays are by node or by mode. The modes 0 .. node_count - 1 run the nodes as given
 * (remat_given_mode), the others follow; a sequence is a list of modes. */
struct remat_problem {
    uint32_t node_count, mode_count, edge_count; /* edges: of the nodes as given */
    const double *time;                          /* by mode */
    const uint64_t *bytes;                       /* by node */
    const uint32_t *input_begin;                 /* CSR by mode */
    const remat_problem_node *inputs;            /* ascending, smaller than the mode's node */
    const uint32_t *user_begin;                  /* CSR by node */
    const remat_problem_node *users;             /* that read it as given; ascending */
    const remat_problem_node *node_of;           /* by mode */
    const uint32_t *mode_begin;                  /* CSR by node */
    const remat_mode_id *modes;                  /* all its modes, the given one first */
    const uint32_t *fused_begin;                 /* CSR by mode */
    const remat_problem_node *fused;             /* ascending */
    const bool *fusible;                         /* by node: some mode makes it inside */
    uint64_t static_bytes;
    const uint64_t *workspace; /* by mode, static bytes included: they are there in every run */
    const uint64_t *lasting;   /* by node */
    const bool *once;          /* by node */
    bool has_lasting, has_once;
    double total_time, least_time; /* sums over nodes, as given and in their fastest modes */
    /* Times as whole numbers of `tick`, rounded down: what search and bound add up. The tick is 1
     * when all times are whole numbers. */
    const uint64_t *ticks;       /* by mode */
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

/* The mode that runs the node as given. */
static inline remat_mode_id remat_given_mode(remat_problem_node node)
{
    return (remat_mode_id){node.i};
}

static inline uint32_t remat_problem_input_count(const struct remat_problem *p, remat_mode_id mode)
{
    return p->input_begin[mode.i + 1] - p->input_begin[mode.i];
}
bool remat_problem_reads(const struct remat_problem *problem, remat_mode_id mode,
                         remat_problem_node node);
/* Bytes that are live during a run of the node in any schedule, whichever mode is taken: inputs,
 * value, workspace. Of one mode: the same for it. */
uint64_t remat_problem_working_set(const struct remat_problem *problem, remat_problem_node node);
uint64_t remat_problem_working_set_of_mode(const struct remat_problem *problem, remat_mode_id mode);

/* Sequences: modes in the order of execution. */
struct remat_sequence REMAT_LIST(remat_mode_id);

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
                            const remat_mode_id *sequence, size_t length,
                            struct remat_simulation *out);

#endif
