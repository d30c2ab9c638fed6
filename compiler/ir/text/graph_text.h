/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text (docs/ir.md): graph_parse.c reads it, graph_print.c writes it. */
#ifndef REMAT_GRAPH_TEXT_H
#define REMAT_GRAPH_TEXT_H

#include "graph.h"

/* Reads untrusted text into a graph in `arena` and verifies it (remat_graph_verify). `text` need
 * not be terminated nor outlive the call. Messages begin with `name:line:`, or with `name:` if they
 * concern the graph as a whole. */
remat_status remat_graph_parse(remat_context *ctx, const char *name, const char *text, size_t bytes,
                               struct remat_arena *arena, struct remat_graph **out);

/* Appends a verified graph to `text`. */
void remat_graph_print(const struct remat_graph *graph, struct remat_text *text);

#endif
