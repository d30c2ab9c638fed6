/* Who reads a value of the forward pass later, and what of that can become one kernel with a clone
 * of it, by the rules of fuse.h: in graph order, over one index space, and until a kernel outside
 * has read from the group. */
#ifndef REMAT_EXTRACT_TRAFFIC_H
#define REMAT_EXTRACT_TRAFFIC_H

#include "facts.h"
#include "fuse.h"

/* Of the plan in which nothing is recomputed. Lies in the arena it was made in. */
struct remat_traffic_table {
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_facts *facts;
    uint32_t *reader_begin, *readers; /* by root: kernels that read it, each once, ascending */
    uint32_t *first_node, *last_node; /* by kernel */
    uint32_t *closed;                 /* by kernel: the first node outside that reads from it;
                                         REMAT_NONE: none does */
};

struct remat_traffic {
    bool forced;                   /* written in the forward pass in any case */
    uint32_t named, joined, apart; /* kernels that read it later: named; programs that can be one
                                      kernel with its clone, and those that cannot */
    uint32_t own; /* of those apart, programs that can be one kernel with a clone of their own,
                     beside the clone that named kernels read */
    uint32_t first_named, first_joined, first_program, first_own; /* REMAT_NONE: there is none */
};

remat_status remat_traffic_create(struct remat_arena *arena, const struct remat_graph *graph,
                                  const struct remat_kernel_list *kernels,
                                  const struct remat_facts *facts, struct remat_traffic_table *out);

/* Of a root that a kernel writes. */
struct remat_traffic remat_traffic_of(const struct remat_traffic_table *table, uint32_t root);

/* A clone of it has to be written to memory: something reads it from there. */
static inline bool remat_traffic_written(const struct remat_traffic *t)
{
    return t->named > 0 || t->apart > 0;
}

/* The kernel that writes a root, REMAT_NONE for inputs and what stays in its kernel. */
uint32_t remat_traffic_writer(const struct remat_traffic_table *table, uint32_t root);

/* A program writes it. */
bool remat_traffic_programmed(const struct remat_traffic_table *table, uint32_t root);

/* The first node of the programs of the backward pass and the optimizer that read a root;
 * REMAT_NONE: none does. */
uint32_t remat_traffic_first_late(const struct remat_traffic_table *table, uint32_t root);

/* Forward pass or loss. */
bool remat_is_early(const struct remat_fused_kernel *kernel);

/* The index spaces allow a clone of a root, which a program writes, in another program. */
bool remat_traffic_fits(const struct remat_traffic_table *table, uint32_t root, uint32_t reader);

/* Two programs of the backward pass that are apart could become one through clones that both read:
 * `second` starts while `first` is open, over the same index space. */
bool remat_traffic_may_merge(const struct remat_traffic_table *table, uint32_t first,
                             uint32_t second);

#endif
