/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a graph, each found in this one place: plain data by value, node or scope, in the given
 * arena. */
#ifndef REMAT_ANALYSIS_H
#define REMAT_ANALYSIS_H

#include "graph.h"
#include "tree.h"

/* --- what nodes read (sources.c) --- */

/* By value: remat_storage_root. */
remat_value *remat_find_roots(struct remat_arena *arena, const struct remat_graph *graph);

/* The value in memory that a kernel loads where it reads a value. */
struct remat_source {
    remat_value root; /* none: a constant or column, made in each kernel that uses it */
    bool viewed;      /* by way of a view */
    bool cast;        /* by way of an absorbed cast */
};

/* True for a constant or column: each fused kernel that reads it makes it for itself, also where it
 * is in memory for others. */
bool remat_is_made_by_readers(const struct remat_node_info *node);

/* A node is *absorbed* if it is in no kernel: a view; a constant or column; an exact cast, which
 * loads do. Built-in kernels and the host read memory alone, a view of a column has to lie there,
 * and a view or a built-in kernel reads a cast as it is: constants, columns and casts that they
 * read are kernels' results. */
struct remat_sources {
    bool *absorbed;          /* by node */
    struct remat_source *of; /* by value */
};
void remat_find_sources(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_sources *out);

/* Nodes that read values, in graph order: nodes[begin[v]] to nodes[begin[v + 1]], once for each
 * input. */
struct remat_readers {
    uint32_t *begin;
    remat_node *nodes;
};
/* `sources`: those that load a value, instead of those that name it; NULL: the latter. */
struct remat_readers remat_find_readers(struct remat_arena *arena, const struct remat_graph *graph,
                                        const struct remat_source *sources);

/* By value: how many nodes' inputs, graph outputs and updates name it. */
uint32_t *remat_count_uses(struct remat_arena *arena, const struct remat_graph *graph);

/* --- bottlenecks (post_dominators.c) --- */

/* The first result of the node that computes `value`, which stands for all its results. */
remat_value remat_first_result(const struct remat_graph *graph, remat_value value);

/* The tree of post-dominators towards `end`, a first result: the parent of a value is the next
 * value through which every path from it to `end` goes. Its members are the first results of the
 * nodes of the forward pass and the loss; graph inputs have a parent only. Empty if no node
 * computes `end`. */
void remat_find_post_dominators(struct remat_arena *arena, const struct remat_graph *graph,
                                remat_value end, struct remat_tree *out);

/* --- layers by scope (layer_numbers.c) --- */

/* Numbers of layers and stacks by scope; none outside layers, and where a layer computes nothing.
 * Layer 3 of two stacks is two layers. */
REMAT_INDEX(remat_layer_stack_id);
struct remat_layer_numbers {
    uint32_t stack_count;
    remat_layer_stack_id *stack; /* in the order of their first scopes */
    uint32_t count;              /* of the layers of all stacks */
    uint32_t *number;            /* of the layer, counted through all stacks in one go */
};
void remat_layers_number(struct remat_arena *arena, const struct remat_graph *graph,
                         struct remat_layer_numbers *out);

/* --- how values depend on the entries of the batch (batch.c) --- */

enum remat_batch_kind {
    REMAT_BATCH_NONE,    /* the same whatever the batch is */
    REMAT_BATCH_ENTRIES, /* each element is of one entry and of no other */
    REMAT_BATCH_SUM,     /* over the entries, of what each makes */
    REMAT_BATCH_MEAN,    /* of what each makes */
    REMAT_BATCH_MIXED,   /* otherwise */
};
struct remat_batch_fact {
    uint8_t kind;
    int64_t run;      /* ENTRIES: element i, in row-major order, is of entry i / run mod batch */
    remat_node mixed; /* MIXED: where it begins; none: a batch of 1 tells nothing apart */
};

/* By value, of a graph before its passes; of its `pair` if it has one. A cross_entropy that ignores
 * targets has the count of the whole batch, also where the pass losses has yet to give it. Graph
 * inputs are batched or of no batch. */
struct remat_batch_fact *remat_find_batch(struct remat_arena *arena,
                                          const struct remat_graph *graph);

/* --- facts that decisions rest on (facts.c) --- */

struct remat_facts {
    remat_value *root;  /* by value: remat_find_roots */
    bool *forward;      /* by value: owns bytes and is computed by an original forward node */
    bool *recomputable; /* by value: forward, and its op may run again on what it reads */
    bool *needed;       /* by root: the backward pass or the optimizer reads it */
    bool *output;       /* by root: an output of the graph */
};
void remat_facts_create(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_facts *out);

#endif
