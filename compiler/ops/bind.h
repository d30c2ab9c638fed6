/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in place of symbols. */
#ifndef REMAT_BIND_H
#define REMAT_BIND_H

#include "ops.h"

/* A copy of the graph in `arena`, verified, with the symbols' values for the symbols; strings and
 * id lists are shared. Graph inputs whose axis 0 is the symbol "batch" become batched.
 * REMAT_ERROR_USAGE: a symbol that is used has no value. Messages as those of remat_graph_verify.
 */
remat_status remat_graph_bind(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, struct remat_graph **out);
/* Checks a graph with symbols, as bound to their values if all have one. */
remat_status remat_graph_verify_symbolic(remat_context *ctx, const struct remat_graph *graph);

#endif
