/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: functions from a graph to a new graph in `arena`. The input graph is not changed, and the
 * output may refer to it (names, scopes), so both arenas live as long as the compilation. A pass
 * with nothing to do returns its input. */
#ifndef REMAT_PASSES_H
#define REMAT_PASSES_H

#include "ops.h"

#define REMAT_LOSS_CHUNK_AUTO UINT32_MAX /* chosen from the shapes alone */

/* A link of 400 GB/s takes thirty times a transfer's latency for it. */
#define REMAT_EXCHANGE_BYTES ((uint64_t)256 << 20)

/* How a step is divided. Zeroed: not at all. */
struct remat_pass_settings {
    uint32_t microbatches;   /* of a rank's step, each with the batch of the graph; 0 as 1 */
    uint32_t zero;           /* 1: ranks along "dp" divide gradients and optimizer states; 3: and
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

/* With several microbatches, or ranks along axis "dp" of graph->mesh: finds which outputs add up
 * over the microbatches of all ranks (graph->summed), and gives a cross_entropy that ignores
 * targets the operand `count`, the graph input "NAME.count" (`counted`), which the pass
 * microbatches computes. INVALID, naming output and node: an output is neither sum nor mean over
 * the entries of the batch, or counts targets that are no input. Of a graph as it was bound, so
 * before all others. */
REMAT_PASS(losses);

/* Merges constants with equal data into the first of them. */
REMAT_PASS(constants);

/* Records the index range of every i32 input (role INPUT) that all its readers use as an index.
 * Must run before expand, after which targets are no longer recognizable as indices. INVALID,
 * naming constant and element: data out of that range. */
REMAT_PASS(indices);

/* Pads embedding tables, and the weights that make the logits of a cross entropy, to rows that the
 * ranks along "tp" divide (`unpadded_rows`, `classes`). INVALID, naming the value: another node
 * reads what would grow. No-op on a joint graph. Before autodiff. */
REMAT_PASS(pad_vocabulary);

/* With settings->loss_chunk, fuses outputs[0], the cross_entropy of a linear that nobody else
 * reads, with that linear: linear_cross_entropy. If the graph has no such pair: INVALID for a given
 * number of rows, no-op with REMAT_LOSS_CHUNK_AUTO. Before autodiff. */
REMAT_PASS(chunk_loss);

/* Appends the backward pass of outputs[0] (the loss, one element): for every trainable parameter
 * the value "NAME.grad" with role GRADIENT; an unused parameter is an error. In each linear the
 * gradient of the weight precedes that of the input. Contributions to one gradient are added from
 * the last user to the first. No-op on a joint graph, which has values of role GRADIENT. */
REMAT_PASS(autodiff);

/* Divides layers among the ranks along "tp" (heads, inner widths, rows of tables, and values with
 * stated layouts), and inserts transfers. Parameters and their gradients become parts. After
 * expand and eliminate_dead. INVALID, naming value and axis: a dimension is not divisible, or a
 * stated layout is contradicted; also if the graph has updates. Only drops stated layouts unless
 * remat_graph_is_undivided along "tp". */
REMAT_PASS(tensor_parallel);

/* Turns a graph over the batch of one microbatch into the graph of any microbatch on any rank;
 * no-op unless settings->microbatches or axis "dp" of graph->mesh is more than 1. Batched inputs
 * take the whole batch, of which nodes read the rows of number "microbatch" (state i32 [1], which
 * the session writes). Random numbers depend on their place in the whole batch. Every gradient
 * "P.grad" is averaged over the microbatches in an f32 accumulator of that name (graph input of
 * role GRADIENT), every output in a tensor of its name (role OUTPUT): the first microbatch sets
 * them, the others add to them. What graph->summed says, and gradients with the first output, is
 * summed instead. What is `counted` is computed from the whole inputs, and with several
 * microbatches in a state of its name (`ahead`). The graph has updates in place of outputs. With
 * settings->zero a gradient that the ranks divide stays in flat parts, and with 3 so is its
 * accumulator. INVALID: an output is not one f32 element, or the graph has updates. */
REMAT_PASS(microbatches);

/* With settings->zero 3: every parameter that the ranks along "dp" divide becomes this rank's flat
 * part, and its readers read "P.gathered", gathered just before the first of them. Otherwise a
 * no-op. */
REMAT_PASS(shard);

/* Appends graph->optimizer: for every parameter "P" with a gradient the states "P.m" and "P.v"
 * (role OPTIMIZER_STATE, zero) and, if P is bf16 and masters are enabled, "P.master"; inputs "lr"
 * f32 [1] and "step" i32 [1]; the coefficients; an adamw node right after each gradient; and the
 * updates. A gradient in parts has states in parts, and its parameter is gathered unless it is in
 * the same parts. No-op without an optimizer, and if the graph already updates parameters. */
REMAT_PASS(optimizer);

REMAT_PASS(eliminate_common); /* merges equal pure nodes; only before clones exist */
REMAT_PASS(expand);           /* composite -> primitive */
REMAT_PASS(eliminate_dead);   /* drops nodes that no output, update or gradient needs */
REMAT_PASS(fold); /* the same; add(x, embedding_backward(..)) -> embedding_accumulate; a sum of pads
                     that tile an axis, from gradients of slices -> concat */

/* On a joint graph: moves forward nodes that only the backward pass or the optimizer reads into the
 * backward pass, each just before its first reader, or before a node that replaces a state it
 * reads. In-place and stateful nodes stay. Afterwards everything in the forward pass leads to an
 * output, an update or the loss. */
REMAT_PASS(defer);

/* Inserts copies of views whose strides the reading built-in kernel does not take
 * (builtin_kernels.def), or which op random reads. */
REMAT_PASS(copy_views);

/* Keeps what computes the outputs, for evaluation: no gradients, updates and dropout (op dropout,
 * and that of attention). */
REMAT_PASS(forward_only);

/* --- steps that are no passes --- */

/* split.c: a part of a graph with microbatches: what is complete before the first of them (states
 * that are `ahead`); what each of them does; the update after the last one: the nodes of phase
 * OPTIMIZER, which read the accumulators, and what else these need. */
enum remat_split_part { REMAT_SPLIT_AHEAD, REMAT_SPLIT_MICROBATCH, REMAT_SPLIT_UPDATE };
struct remat_graph *remat_split(struct remat_arena *arena, const struct remat_graph *graph,
                                enum remat_split_part part);

/* pitch.c: pads rows to a pitch of whole 64 elements if they are not aligned to 16 bytes and the
 * padding adds at most 1/16; matrix units need the alignment (logits over 50,257 ids get a pitch of
 * 50,304). Pads activations that a matmul reads or writes, and what is computed from them element
 * by element. Leaves alone what the host sees, what kernels other than matmul and fused ones read,
 * and what has a view that merges or splits the last axis. Works in place, after all passes: it
 * decides sizes of buffers and strides, no bit. */
void remat_pitch(struct remat_graph *graph);

#endif
