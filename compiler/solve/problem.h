/* The planning problem in its bare form: a graph of nodes with a time and a size each, nothing
 * else.
 *
 * Meaning. Running a node needs the values of its inputs live; its own value occupies `bytes` from
 * the start of the run. A value is freed after its last use before its next production; a value
 * that nobody uses lives during its run only. Every node runs at least once, any number of times.
 * The peak of a sequence is its largest live sum during any run, its time the sum over its runs. */
#ifndef REMAT_PROBLEM_H
#define REMAT_PROBLEM_H

#include "base.h"

#define REMAT_PROBLEM_NODES_MAX (1u << 20)
#define REMAT_PROBLEM_EDGES_MAX (1u << 24)
#define REMAT_PROBLEM_BYTES_MAX (UINT64_C(1) << 60) /* of all values together */

/* Immutable once made; may be shared between threads. Borrows `names`, the rest is the arena's. */
struct remat_problem {
    uint32_t node_count, edge_count;
    const char *const *names; /* NULL: nodes are called by their numbers */
    const double *time;       /* finite, not negative */
    const uint64_t *bytes;
    const uint32_t *input_begin, *inputs; /* CSR; inputs of a node ascend and are smaller than it */
    const uint32_t *user_begin, *users;   /* CSR; users of a node ascend */
    double total_time;
    uint64_t total_bytes;
    /* Times as whole numbers of `tick`, rounded down: what search and bound add up. The tick is 1
     * when all times are whole numbers. */
    const uint64_t *ticks;
    uint64_t total_ticks;
    double tick;
};

/* Checks everything the struct promises; a message names the node. `input_begin` has node_count + 1
 * entries; inputs may come in any order but not twice. The arrays are copied, `names` is not. */
remat_status remat_problem_create(remat_context *ctx, struct remat_arena *arena,
                                  uint32_t node_count, const char *const *names, const double *time,
                                  const uint64_t *bytes, const uint32_t *input_begin,
                                  const uint32_t *inputs, struct remat_problem *out);

/* "node 12 (\"conv1\")", in the arena; "node 12" when it cannot be made. */
const char *remat_problem_node_text(struct remat_arena *arena, const struct remat_problem *problem,
                                    uint32_t node);

static inline uint32_t remat_problem_input_count(const struct remat_problem *p, uint32_t node)
{
    return p->input_begin[node + 1] - p->input_begin[node];
}
/* Bytes that are live during a run of the node in any schedule: its inputs and its value. */
uint64_t remat_problem_working_set(const struct remat_problem *problem, uint32_t node);

/* Sequences: node numbers in the order of execution. */
struct remat_sequence {
    uint32_t *items;
    size_t count, capacity;
};

#endif
