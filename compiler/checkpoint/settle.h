/* SPDX-License-Identifier: Apache-2.0 */
/* How each candidate is recomputed, settled before any decision: inline, inside a fused kernel that
 * reads it, or by a rerun, the kernel that made it run again for the outputs that are needed.
 *
 * A candidate is a forward value that a kernel writes to memory when everything is saved, and whose
 * slice may run again: the nodes of that kernel that make it, down to other values in memory. A
 * forward value that its kernel keeps to itself is recomputed with what is made of it; a pin that
 * saves it makes it a candidate, and in a graph with foreign nodes a row statistic is one, too.
 *
 * Example: one forward kernel makes a bias sum p, gelu(p) and writes both. gelu's backward kernel
 * reads p alone: it inlines p, the sum of a product and a bias. A product's backward pass reads
 * gelu(p) from memory, so the kernel runs again for it. That rerun makes p for itself. */
#ifndef REMAT_SETTLE_H
#define REMAT_SETTLE_H

#include "analysis.h"
#include "decision.h"
#include "keeps.h"
#include "price.h"

enum remat_value_state {
    REMAT_VALUE_FIXED,     /* an input, or in memory when it is read: never recomputed */
    REMAT_VALUE_INTERNAL,  /* kernel-internal: recomputed with the values made of it */
    REMAT_VALUE_CANDIDATE, /* a decision saves or recomputes it */
};

/* The nodes of a kernel that make some of its values, and the roots that they read from memory. */
struct remat_slice {
    uint32_t node_count, read_count;
    remat_node *nodes; /* in graph order */
    struct remat_slice_read {
        remat_value root; /* each once */
        bool direct;      /* every read of it is direct, not through a view */
    } * reads;
};

/* Readers of a value in kernels other than its own. */
enum remat_reading {
    REMAT_READ_EARLY = 1,  /* the forward pass or the loss: all of it leads to an output */
    REMAT_READ_LATE = 2,   /* a kernel of the backward pass or the optimizer */
    REMAT_READ_LOADED = 4, /* for a candidate: some kernel loads it wherever it is recomputed */
};

struct remat_roots REMAT_LIST(remat_value);

REMAT_INDEX(remat_run); /* a kernel, or a rerun of it: below */

struct remat_settled {
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels; /* the graph's own: everything is saved */
    remat_kernel_id *kernel_of;              /* by node; none: it is absorbed (analysis.h) */
    const struct remat_decision *pinned;     /* of the pins alone; NULL: there are none */
    struct remat_facts facts;
    struct remat_sources sources;
    uint8_t *state;             /* by value: enum remat_value_state; a view is FIXED */
    bool *written;              /* by value: its kernel writes it to memory */
    uint8_t *reads;             /* by value: enum remat_reading */
    bool *inlined;              /* by value: every reader inlines it, so no rerun writes it */
    struct remat_slice *slices; /* by value: of candidates */
    struct remat_roots *own;    /* by kernel: the candidates that it makes */
    uint8_t *place;             /* by value: of a candidate, its place among these */
    /* By kernel: the candidates that a kernel of the backward pass inlines, or the rerun of a
     * forward kernel. */
    struct remat_roots *inlines;
    remat_kernel_id *host; /* by kernel: hosts.c; NULL: no kernel has one */
    struct remat_keeps keeps;
};

/* The load of a fused kernel that makes and stores only `roots`. `again`: of its rerun, in its host
 * if it has one, when no other value is recomputed, so that other candidates are read; else of the
 * forward kernel when no other value is stored. */
struct remat_load remat_settled_load(struct remat_arena *scratch,
                                     const struct remat_settled *settled, const remat_value *roots,
                                     uint32_t count, bool again,
                                     const struct remat_device_description *device);

/* `pinned`: the decision of the pins alone, a reason marks what they decide; NULL: no pins. The
 * result lies in the arena and points to its arguments. */
void remat_settle(struct remat_arena *arena, const struct remat_graph *graph,
                  const struct remat_kernel_list *kernels,
                  const struct remat_device_description *device,
                  const struct remat_decision *pinned, struct remat_settled *out);

static inline struct remat_source remat_settled_source(const struct remat_settled *settled,
                                                       remat_value value)
{
    return settled->sources.of[value.i];
}

static inline bool remat_is_candidate(const struct remat_settled *settled, remat_value root)
{
    return settled->state[root.i] == REMAT_VALUE_CANDIDATE;
}

/* The kernel that a rerun is priced as a part of; NULL: it is a kernel of its own. */
static inline const struct remat_kernel_info *remat_settled_host(const struct remat_settled *s,
                                                                 remat_kernel_id kernel)
{
    bool hosted = s->host && !remat_is_none(s->host[kernel.i].i);
    return hosted ? remat_kernel_at(s->kernels, s->host[kernel.i]) : NULL;
}

/* The kernel that writes a value when everything is saved; none: no kernel does. */
static inline remat_kernel_id remat_settled_writer(const struct remat_settled *settled,
                                                   remat_value root)
{
    remat_node node = remat_producer(settled->graph, root);
    return remat_is_none(node.i) ? REMAT_NO_KERNEL : settled->kernel_of[node.i];
}

/* Round 0 has the kernels, each later round their reruns. */
static inline remat_run remat_run_of(const struct remat_settled *settled, remat_kernel_id kernel,
                                     uint32_t round)
{
    return (remat_run){round * settled->kernels->count + kernel.i};
}
static inline remat_kernel_id remat_run_kernel(const struct remat_settled *settled, remat_run run)
{
    return (remat_kernel_id){run.i % settled->kernels->count};
}
static inline uint32_t remat_run_round(const struct remat_settled *settled, remat_run run)
{
    return run.i / settled->kernels->count;
}
static inline remat_run remat_run_end(const struct remat_settled *settled)
{
    return remat_run_of(settled, (remat_kernel_id){0}, 1 + REMAT_ROUNDS_MAX);
}
/* The run of a kernel that keeps a value: these follow all others. */
static inline remat_run remat_run_of_keep(const struct remat_settled *settled,
                                          remat_kernel_id kernel)
{
    return (remat_run){remat_run_end(settled).i + kernel.i};
}

/* --- hosts.c --- */

/* The hosts of reruns. Foreign nodes are compiled by others, who fuse kernels over the same index
 * space that read the same values. So there a rerun of a fused kernel is priced as a part of such a
 * kernel of the backward pass, its host: no launch, and no load of what the host loads anyway. In
 * orders it stays a kernel of its own, before the first kernel that reads it.
 *
 * Example: y = gelu(p), and only p is saved. The gradient of a product's weights reads y, and then
 * that of gelu reads p. Its kernel is the host: it loads p once and stores y, too, which costs a
 * store. */

/* By kernel: the host of its first rerun; none: it has none. */
remat_kernel_id *remat_hosts_find(struct remat_arena *arena, const struct remat_settled *settled);

/* The kernel that a run is priced as a part of; NULL: it is a kernel of its own, as are the graph's
 * own and all second reruns. */
static inline const struct remat_kernel_info *remat_hosted_in(const struct remat_settled *settled,
                                                              remat_run run)
{
    return remat_run_round(settled, run) == 1
               ? remat_settled_host(settled, remat_run_kernel(settled, run))
               : NULL;
}

#endif
