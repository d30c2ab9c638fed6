/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: each a function from a graph to a new graph in `arena`; the input graph stays as it is
 * and the output may point into it (names, scopes), so both arenas live as long as the compilation.
 * A pass that has nothing to do returns its input. */
#ifndef REMAT_PASSES_H
#define REMAT_PASSES_H

#include "ops.h"

#define REMAT_LOSS_CHUNK_AUTO UINT32_MAX /* chosen from the shapes alone */

/* Takes a link of 400 GB/s thirty times as long as a transfer's latency. */
#define REMAT_EXCHANGE_BYTES ((uint64_t)256 << 20)

/* How a step is divided. Zeroed: not at all. */
struct remat_pass_settings {
    uint32_t microbatches;   /* of a rank's step, each with the batch of the graph; 0 as 1 */
    uint32_t zero;           /* 1: the ranks along "dp" divide what updates are made of; 3: and
                                parameters */
    bool sequence_parallel;  /* sums along "tp" are finished into parts of the tokens */
    uint64_t exchange_bytes; /* of a gradient that ranks exchange at once, larger ones in pieces; 0:
                                REMAT_EXCHANGE_BYTES */
    uint32_t loss_chunk;     /* rows of the logits that exist at once; 0: all of them;
                                REMAT_LOSS_CHUNK_AUTO */
};

#define REMAT_PASS(name)                                                                           \
    remat_status remat_pass_##name(struct remat_arena *arena, const struct remat_graph *graph,     \
                                   const struct remat_pass_settings *settings                      \
                                   __attribute__((unused)),                                        \
                                   struct remat_graph **out)

static inline remat_status remat_pass_nothing(const struct remat_graph *graph,
                                              struct remat_graph **out)
{
    *out = (struct remat_graph *)graph;
    return REMAT_OK;
}

/* Says of every i32 input, role INPUT, which elements all its readers accept, where to all of them
 * they are indices. Before expand, which leaves nothing that says so of targets. */
REMAT_PASS(indices);

/* With several ranks along axis "tp" of graph->mesh: tables of embeddings, and what makes the
 * logits of a cross entropy, get as many rows of padding (`unpadded_rows`, `classes`) as make them
 * divide. INVALID where others read what would grow; the message names it. No-op with one rank, on
 * a joint graph, and where the graph reads its coordinate along the axis. Before autodiff. */
REMAT_PASS(pad_vocabulary);

/* Where settings->loss_chunk asks for it and outputs[0] is cross_entropy of a linear that nobody
 * else reads, both become linear_cross_entropy. INVALID where it is not and a number of rows was
 * asked for; nothing with REMAT_LOSS_CHUNK_AUTO. Before autodiff. */
REMAT_PASS(chunk_loss);

/* Appends the backward pass of outputs[0] (the loss, one element): the gradient of every trainable
 * parameter that it depends on, value "NAME.grad" with role GRADIENT; an unused parameter is an
 * error. In each linear the gradient of the weight comes before that of the input. Contributions to
 * one gradient are added in the order of the users, last user first. No-op when some value has role
 * GRADIENT already (a graph that arrives joint). */
REMAT_PASS(autodiff);

/* With several ranks along axis "tp" of graph->mesh: expands the graph and divides what layers
 * compute among them: heads, inner widths, the rows of tables, and what the graph states; and
 * inserts transfers. Parameters and their gradients are then parts. INVALID where a dimension is
 * not divisible, or a stated layout is contradicted, as the message says of which value and along
 * which axis, and where the graph has updates. With one rank, and where the graph reads its
 * coordinate along the axis, and so divides things itself, it only forgets stated layouts. */
REMAT_PASS(tensor_parallel);

/* Makes the graph of a microbatch of each rank from one whose batch is that of a microbatch; no-op
 * unless settings->microbatches or axis "dp" of graph->mesh is more than 1. Batched inputs get the
 * whole batch, of which the nodes read part number "microbatch" (state i32 [1], counted by the
 * graph itself). Random numbers are those of the part's place in the whole batch. Every gradient
 * "P.grad" is averaged over the microbatches in an f32 accumulator of that name (graph input of
 * role GRADIENT), every output in a tensor of its name (role OUTPUT): the first microbatch sets
 * them, the others add to them; the graph has updates in place of outputs. With settings->zero a
 * gradient that the ranks divide is left in parts, flat, and with 3 its accumulator is one. INVALID
 * where an output is not one f32 element, or the graph has updates. */
REMAT_PASS(microbatches);

/* With settings->zero 3 every parameter that the ranks along "dp" divide is a part, flat, as it is
 * on this rank, and its readers read "P.gathered", which a gather just before the first of them
 * makes. No-op with less. */
REMAT_PASS(shard);

/* Appends the optimizer of graph->optimizer: for every parameter "P" with a gradient the states
 * "P.m" and "P.v" (role OPTIMIZER_STATE, zero) and, if P is bf16, "P.master" unless there are no
 * masters, inputs "lr" f32 [1] and "step" i32 [1], the coefficients, an adamw node right after each
 * gradient, and the updates. Of a gradient in parts states are parts too, and the parameter is
 * gathered unless it is in the same parts. No-op without an optimizer or when the graph updates
 * parameters already. */
REMAT_PASS(optimizer);

REMAT_PASS(eliminate_common); /* merges equal pure nodes; only before clones exist */
REMAT_PASS(expand);           /* composite -> primitive */
REMAT_PASS(eliminate_dead);   /* drops nodes that no output, update or gradient needs */
REMAT_PASS(fold); /* the same, and add(x, embedding_backward(..)) -> embedding_accumulate; a sum of
                     pads that tile an axis, as the gradients of slices are -> concat */

/* Of a graph that arrives joint: forward nodes whose results only the backward pass or the
 * optimizer reads become nodes of the backward pass, each just before the first node that reads it,
 * or before one that replaces a state it reads. A node that is in place or stateful stays. So all
 * that the forward pass computes leads to an output, an update or the loss. */
REMAT_PASS(defer);

/* Copies a view for the built-in nodes whose kernels do not take its strides (builtin_kernels.def),
 * and for op random. */
REMAT_PASS(copy_views);

/* The graph of an evaluation: what computes the outputs, without gradients, updates and dropout (op
 * dropout, and that of attention). */
REMAT_PASS(forward_only);

/* --- steps that are no passes --- */

/* split.c: cuts a training graph with microbatches in two: what every microbatch does, or the
 * `update` after the last one: the nodes of phase OPTIMIZER, which read the accumulators, and what
 * else these need. */
struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                bool update);

/* pitch.c: pads rows to a pitch of whole 64 elements if they are not aligned to 16 bytes and the
 * padding adds at most 1/16; matrix units need the alignment (logits over 50,257 ids get a pitch of
 * 50,304). Pads activations that a matmul reads or writes, and what is computed from them element
 * by element. Leaves alone what the host sees, what kernels other than matmul and fused ones read,
 * and what has a view that merges or splits the last axis. Works in place, after all passes: it
 * decides sizes of buffers and strides, no bit. */
void remat_pitch(struct remat_graph *graph);

#endif
