/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of graphs. */
#ifndef REMAT_GRAPH_VERIFY_H
#define REMAT_GRAPH_VERIFY_H

#include "ops.h"

/* Semantic check of a whole graph: ids in range and defined before use, arity, attributes, inferred
 * shapes and dtypes equal those recorded, unique names, updates in order. Message:
 * `node "NAME" (op): ...`. */
remat_status remat_graph_verify(remat_context *ctx, const struct remat_graph *graph);

#endif
