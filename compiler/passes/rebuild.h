/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the passes: builds a new graph from an old one, node by node. */
#ifndef REMAT_REBUILD_H
#define REMAT_REBUILD_H

#include "analysis.h"
#include "builder.h"
#include "passes.h"

struct remat_rebuild {
    struct remat_arena *arena;
    const struct remat_graph *from;
    struct remat_graph *to;
    remat_value *values; /* by old value: the new one; REMAT_NO_VALUE: none yet */
    uint32_t *groups;    /* by old node id: the new group for the old group of that id */
};

/* Begins with a graph of the scopes and graph inputs of `from`, and room for `room` times its
 * values and nodes. */
struct remat_rebuild remat_rebuild_begin(struct remat_arena *arena, const struct remat_graph *from,
                                         uint32_t room);
/* The same without the graph inputs that `dropped` has, by value; their values are none yet. */
struct remat_rebuild remat_rebuild_begin_without(struct remat_arena *arena,
                                                 const struct remat_graph *from, uint32_t room,
                                                 const bool *dropped);
/* New ids of the node's inputs, in the arena. */
remat_value *remat_rebuild_inputs(struct remat_rebuild *r, const struct remat_node_info *node);
/* The new number of an old group. */
uint32_t remat_rebuild_group(struct remat_rebuild *r, uint32_t old);
/* Copies a node and the values it computes. */
void remat_rebuild_copy(struct remat_rebuild *r, remat_node node);
/* Replaces `old` by `value` of the new graph, which takes over its name, role and other facts. */
void remat_rebuild_replace(struct remat_rebuild *r, remat_value old, remat_value value);
/* Copies the nodes that the outputs, updates and gradients of `from` need, down to values that are
 * already in the new graph. */
void remat_rebuild_live(struct remat_rebuild *r);
/* Adds outputs and updates, and returns the new graph. */
struct remat_graph *remat_rebuild_finish(struct remat_rebuild *r);

/* Adds a graph input; a state starts with 0. */
remat_value remat_add_input(struct remat_builder *builder, const char *name, remat_dtype dtype,
                            struct remat_shape shape, uint8_t role);

/* By value: whether it is a graph output or the new version of a state. */
bool *remat_find_kept(struct remat_arena *arena, const struct remat_graph *graph);
/* True if an output of the node is needed or is a gradient. */
bool remat_is_needed(const struct remat_graph *graph, const struct remat_node_info *node,
                     const bool *needed);

/* gradients.c: by value, the parameter "w" whose gradient it is ("w.grad"); REMAT_NO_VALUE: none. A
 * new version of a gradient in memory has the name of the memory. */
remat_value *remat_gradients_find(struct remat_arena *arena, const struct remat_graph *graph);

/* --- transfers.c: transfers along an axis of the graph's mesh, which has it --- */

/* [ranks, ceil(S / ranks)]: this rank's part of every rank's x, of S elements. */
remat_value remat_build_exchange(struct remat_builder *b, const char *axis, remat_value x);

/* All parts, of shape `whole`; `part` is flat. */
remat_value remat_build_gather(struct remat_builder *b, const char *axis, remat_value part,
                               const struct remat_shape *whole);

/* Row q of x [ranks, ..]. */
remat_value remat_build_row(struct remat_builder *b, remat_value x, int64_t q);

/* A part of a tensor of which the ranks along an axis take runs in turn. */
const struct remat_rank_part *remat_make_part(struct remat_builder *b, const char *axis,
                                              const struct remat_shape *whole, int64_t run);

/* A part of `of`, in equal blocks along an axis; `of` may itself be a part along another axis.
 * NULL: the ranks along the axis do not divide it. */
const struct remat_rank_part *remat_make_block(struct remat_builder *b, const char *axis,
                                               const struct remat_value_info *of);

/* This rank's coordinate along an axis: i32 [1], a state that the session writes. */
remat_value remat_build_coordinate(struct remat_builder *b, const char *axis);

#endif
