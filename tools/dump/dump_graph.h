/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a graph: sizes and counts. Its text form is remat_graph_print. */
#ifndef REMAT_TOOLS_DUMP_GRAPH_H
#define REMAT_TOOLS_DUMP_GRAPH_H

#include "dump.h"
#include "graph.h"

/* `bound`: the graph bound to its symbols' values. */
void dump_graph_text(const struct remat_graph *graph, const struct remat_graph *bound,
                     struct remat_text *out);
void dump_graph_json(const struct remat_graph *graph, const struct remat_graph *bound,
                     struct dump_json *out);
/* Nodes, and graph inputs that are not parameters, for Graphviz; of a layer, NULL: of all.
 * REMAT_ERROR_USAGE: there is no such layer. */
remat_status dump_graph_dot(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_graph *bound, const char *layer,
                            struct remat_text *out);

#endif
