/* SPDX-License-Identifier: Apache-2.0 */
/* All that a decision may ask to be recomputed, made once: deciding is then choosing which clones
 * run and who reads them. Kernels stay those of the graph that saves everything (settle.h): a clone
 * runs in the kernel that inlines it, or in the rerun of its original's kernel.
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

/* Of a slot's reads: what is gathered from a shard. */
enum { REMAT_CLONE_SHARD = REMAT_ROUNDS_MAX + 1, REMAT_CLONE_READS };

/* An input that reads a value or, by the action on its root, a clone. */
struct remat_clone_slot {
    remat_value *input;
    remat_value root;
    remat_value reads[REMAT_CLONE_READS]; /* by remat_clone_read of the action on the root */
};
/* How often the root is recomputed, or REMAT_CLONE_SHARD. */
static inline uint32_t remat_clone_read(uint8_t action)
{
    return action == REMAT_ACTION_SHARD ? REMAT_CLONE_SHARD : remat_action_times(action);
}

struct remat_nodes REMAT_LIST(remat_node);
struct remat_sites REMAT_LIST(remat_site);

struct remat_clones {
    /* The given graph with the same ids; then the nodes of shards; then the clones (phase
     * BACKWARD): of the reruns of round r instance 2 r - 1, of what they inline 2 r, of what
     * kernels of the backward pass inline 2 (of the last round 2 r). These ids are no order. Each
     * node says which kernel it runs in. */
    struct remat_graph *graph;
    const struct remat_settled *settled;
    /* private */
    remat_site *site;       /* by node: its kernel, or a rerun; remat_site_end on: neither */
    uint32_t *site_begin;   /* by site, and one more: of site_nodes */
    remat_node *site_nodes; /* of each in graph order */
    uint32_t *first_slot;   /* by node, and one more */
    struct remat_clone_slot *slots;
    bool *needed; /* by node: scratch of remat_clones_choose, all false */
};

/* With REMAT_ROUNDS_MAX rounds. `settled` outlives the result, which lies in the arena. */
void remat_clones_create(struct remat_arena *arena, const struct remat_settled *settled,
                         struct remat_clones *out);

/* Of one site under a decision: the nodes of its kernel that `kept` need, which are some of them,
 * in graph order, and the reruns and gathers of shards that it reads, in the order in which they
 * come before it where they have not come before. Sets the inputs of these nodes in clones->graph.
 * The lists lie in the arena. */
struct remat_chosen_site {
    struct remat_nodes nodes;
    struct remat_sites before;
};
struct remat_chosen_site remat_clones_choose(struct remat_clones *clones, struct remat_arena *arena,
                                             const struct remat_decision *decision, remat_site site,
                                             const struct remat_nodes *kept);

/* The rewrite: a graph of the nodes of the decision's kernels and of the views and casts that they
 * read. Nodes come kernel by kernel and say which one they run in. */
struct remat_graph *remat_rewrite(struct remat_arena *arena, const struct remat_clones *clones,
                                  const struct remat_decision *decision,
                                  const struct remat_kernel_list *kernels);

#endif
