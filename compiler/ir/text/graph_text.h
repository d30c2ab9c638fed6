/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a graph (docs/ir.md has its grammar): what --print-after and remat-dump show,
 * and what golden tests are written in. Printing and parsing again gives an equal graph, ids
 * included as long as values and nodes were appended in the order of the text. */
#ifndef REMAT_GRAPH_TEXT_H
#define REMAT_GRAPH_TEXT_H

#include "graph.h"

/* Appends a verified graph to `text`. */
void remat_graph_print(const struct remat_graph *graph, struct remat_text *text);

/* Reads untrusted text into a graph in `arena` and verifies it (remat_graph_verify). `text` need
 * not be terminated nor outlive the call. Messages: `name:line: ...`, and `name: ...` where the
 * graph as a whole is wrong. */
remat_status remat_graph_parse(remat_context *ctx, const char *name, const char *text, size_t bytes,
                               struct remat_arena *arena, struct remat_graph **out);

#endif
