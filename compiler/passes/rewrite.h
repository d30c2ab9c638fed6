/* The rematerialization rewrite: decision -> clones in the graph. */
#ifndef REMAT_REWRITE_H
#define REMAT_REWRITE_H

#include "clones.h"

/* The graph with the clones of clones.h that the decision asks for, without the nodes that nobody
 * needs any more. Nodes keep their order. */
remat_status remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph, const struct remat_decision *decision,
                           struct remat_graph **out);

/* The same of the graph that the clones were made of. */
remat_status remat_rewrite_with(remat_context *ctx, struct remat_arena *arena,
                                struct remat_clones *clones, const struct remat_decision *decision,
                                struct remat_graph **out);

#endif
