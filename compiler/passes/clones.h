/* All that a decision may ask to be computed again, made once: deciding is then choosing which
 * clones run and who reads them. */
#ifndef REMAT_CLONES_H
#define REMAT_CLONES_H

#include "decision.h"
#include "passes.h"

/* An input that reads a value or, by the action on it, a clone: of some round the shared one, or
 * the one for kernel programs (of what named kernels compute there is no other, it is the same). */
struct remat_clone_slot {
    remat_value *input;
    uint32_t root;                      /* the value's */
    uint32_t reads[REMAT_ACTION_COUNT]; /* by action; SAVE: the value */
};

struct remat_clone_node {
    const remat_value *inputs;
    uint32_t input_count, first_slot;
};

struct remat_clones {
    /* The given graph with the same ids and, behind it, two clones for each round (phase BACKWARD;
     * instance 2 round - 1, shared, and 2 round, for kernel programs) of every forward node and
     * every later view of what one computes. The clones' ids are no order. */
    struct remat_graph *graph;
    uint32_t rounds;
    uint32_t node_count, value_count; /* of the given graph */
    uint32_t tail;                    /* nodes from here on are the same under every decision */
    /* private */
    uint32_t *root;     /* by value of the given graph: its storage root */
    uint8_t *kept;      /* by node: computes a gradient, an output or an update */
    uint32_t *producer; /* by value: its node, the number of nodes where it is given */
    uint32_t slot_count;
    struct remat_clone_slot *slots;
    struct remat_clone_node *nodes; /* by node, and one more */
};

/* `rounds`: how often a value may be computed again, 1 to REMAT_ROUNDS_MAX. The tail is the
 * optimizer, if that comes last and reads nothing of the nodes before but gradients; else it is
 * empty. */
remat_status remat_clones_create(struct remat_arena *arena, const struct remat_graph *graph,
                                 uint32_t rounds, struct remat_clones *out);

/* Every node of the backward pass and of the optimizer that reads a value with action RECOMPUTE
 * reads its shared clone, placed just before the first such node; a clone reads the clones of what
 * is recomputed and the originals of what is saved. With action FUSED, nodes that no named kernel
 * runs read the clone for kernel programs, and so do these clones: it can be made inside the kernel
 * that reads it, while the shared one is written for a named kernel. Views of recomputed values are
 * cloned along, and so is what loads widen (a cast from bf16 that neither a view nor a named kernel
 * reads): its own action does not count. What names an input for its shape alone reads the
 * original.
 *
 * All that is in the first round. Of what is NESTED the backward pass and clones of the second
 * round read a clone of the second, clones of the first round one of the first: when the backward
 * pass comes to what is made of a nested value, the first round passes through; the second makes it
 * for the backward pass, from values that are saved, that the first round made and that stayed, or
 * that are nested too. With fewer rounds than the decision asks for, the last one is the only one.
 *
 * Clones stay pure and are never merged with their originals. Sets the inputs in
 * clones->graph and returns the nodes of [0, end) and their clones in order, those left out that no
 * output, update or gradient needs. Thread-compatible: one decision
 * at a time. */
remat_status remat_clones_choose(struct remat_clones *clones, struct remat_arena *arena,
                                 const struct remat_decision *decision, uint32_t end,
                                 uint32_t *out_count, uint32_t **out_nodes);

#endif
