/* The rematerialization rewrite: decision -> clones in the graph. */
#ifndef REMAT_REWRITE_H
#define REMAT_REWRITE_H

#include "decision.h"
#include "passes.h"

/* Every node of the backward pass and of the optimizer that reads a value with action RECOMPUTE
 * reads a clone instead (instance 1, phase BACKWARD), placed just before the first such node; a
 * clone reads the clones of what is recomputed and the originals of what is saved. Views of
 * recomputed values are cloned along. Clones stay pure and are never merged with their originals.
 * The result may hold dead originals: eliminate_dead follows.
 */
remat_status remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph, const struct remat_decision *decision,
                           struct remat_graph **out);

#endif
