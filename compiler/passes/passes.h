/* Passes: each a function from a graph to a new graph in `arena`; the input graph stays as it is
 * and the output may point into it (names, scopes), so both arenas live as long as the compilation.
 */
#ifndef REMAT_PASSES_H
#define REMAT_PASSES_H

#include "ops.h"

#define REMAT_PASS(name)                                                                           \
    remat_status remat_pass_##name(remat_context *ctx, struct remat_arena *arena,                  \
                                   const struct remat_graph *graph, struct remat_graph **out)

/* Appends the backward pass of outputs[0] (the loss, one element): the gradient of every trainable
 * parameter that it depends on, value "NAME.grad" with role GRADIENT; an unused parameter is an
 * error. In each linear the gradient of the weight comes before that of the input. Contributions to
 * one gradient are added in the order of the users, last user first. No-op when some value has role
 * GRADIENT already (a graph that arrives joint). */
REMAT_PASS(autodiff);

/* Appends the optimizer of graph->optimizer: for every parameter "P" with a gradient the states
 * "P.m" and "P.v" (role OPTIMIZER_STATE, zero), inputs "lr" f32 [1] and "step" i32 [1], the
 * coefficients, an adamw node right after each gradient, and the updates. No-op when
 * graph->optimizer.adamw is false or the graph has updates already. */
REMAT_PASS(optimizer);

REMAT_PASS(eliminate_common); /* merges equal pure nodes; only before clones exist */
REMAT_PASS(expand);           /* composite -> primitive */
REMAT_PASS(fold);           /* add(x, embedding_backward(..)) -> embedding_accumulate; a sum of pads
                               that tile an axis, as the gradients of slices are -> concat */
REMAT_PASS(eliminate_dead); /* drops nodes that no output, update or gradient needs */

/* What computes the outputs, without gradients and updates: the graph of an evaluation. */
REMAT_PASS(forward_only);

#endif
