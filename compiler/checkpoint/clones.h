/* SPDX-License-Identifier: Apache-2.0 */
/* Clones of every node that a decision may recompute, made once: a decision then selects the clones
 * that run and the nodes that read them. Kernels stay those of the graph that saves everything
 * (settle.h): a clone runs in the kernel that inlines it, or in the rerun of its original's kernel.
 *
 * Every node of the backward pass and of the optimizer that reads a recomputed candidate reads its
 * clone: the one in its own kernel where that inlines the value, else the one of the rerun, which
 * runs just before the first kernel that reads something of it. A clone reads the clones of what is
 * recomputed and the originals of what is saved. Views of recomputed values are cloned along, and
 * so are casts that loads do.
 *
 * All that is in the first round. Of a value recomputed twice, the backward pass and reruns of the
 * second round read the second clone, reruns of the first round the first: when the backward pass
 * comes to the results of such a value, the first round passes through; the second makes it for the
 * backward pass, from values that are saved, that the first round made and that stayed, or that are
 * recomputed twice too. */
#ifndef REMAT_CLONES_H
#define REMAT_CLONES_H

#include "settle.h"

/* An input of a node that reads a value, a clone, or what a way to keep the value gets. */
struct remat_clone_slot {
    uint32_t input;
    remat_value root;
    remat_value reads[REMAT_ACTION_COUNT]; /* by the action on the root */
};

struct remat_runs REMAT_LIST(remat_run);

struct remat_clones {
    /* The given graph with the same ids; then the nodes of ways to keep; then the clones (phase
     * BACKWARD), with the instance of their round (clone_round.h): of what kernels of the backward
     * pass inline, of the last one. These ids are no order.
     * Inputs are those of the decision that saves everything. */
    const struct remat_graph *graph;
    const struct remat_settled *settled;
    remat_run *runs_in; /* by node: its kernel, or a rerun; none: it is absorbed (analysis.h) */
    /* private */
    remat_run *run;        /* by node: the same; of absorbed nodes the run that they are for, from
                              remat_run_end on all runs of a round */
    uint32_t *run_begin;   /* by run, and one more: of run_nodes */
    remat_node *run_nodes; /* of each in graph order */
    uint32_t *first_slot;  /* by node, and one more */
    struct remat_clone_slot *slots;
};

/* With REMAT_ROUNDS_MAX rounds. `settled` outlives the result, which lies in the arena. */
void remat_clones_create(struct remat_arena *arena, const struct remat_settled *settled,
                         struct remat_clones *out);

/* A run under a decision as a graph of its own: the nodes that `kept`, some of the run's, need, and
 * the absorbed ones, constants and columns that these read; what other runs make are its graph
 * inputs. */
struct remat_wired_run {
    struct remat_graph graph;
    remat_value *values;          /* by value: that of the clones' graph */
    struct remat_nodes nodes;     /* of the run's kernel, in graph order */
    struct remat_nodes originals; /* the same in the clones' graph */
    struct remat_runs before; /* reruns and gets that it reads, in the order in which they precede
                                 it unless they already have */
};

/* originals and `before` lie in the arena, the rest in `scratch`. own: by value of the clones'
 * graph, none; so it is on return, too. */
struct remat_wired_run remat_wire_run(struct remat_arena *arena, struct remat_arena *scratch,
                                      const struct remat_clones *clones,
                                      const struct remat_decision *decision, remat_run run,
                                      const struct remat_nodes *kept, remat_value *own);

/* The clones' graph with the inputs that nodes have under the decision: those in its kernels, and
 * the views and casts that they read. What kernels of the backward pass inline is then of the
 * decision's last round. Lists these nodes: kernel by kernel, views and casts before the first that
 * reads them. */
struct remat_graph *remat_wire(struct remat_arena *arena, const struct remat_clones *clones,
                               const struct remat_decision *decision,
                               const struct remat_kernel_list *kernels, struct remat_nodes *out);

#endif
