/* SPDX-License-Identifier: Apache-2.0 */
/* The rematerialization rewrite: decision -> clones in the graph. */
#ifndef REMAT_REWRITE_H
#define REMAT_REWRITE_H

#include "clones.h"

/* The graph with the clones of clones.h that the decision asks for, without the nodes that nobody
 * needs any more. Nodes come kernel by kernel and say which one they run in. */
struct remat_graph *remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                                  struct remat_clones *clones,
                                  const struct remat_decision *decision);

#endif
