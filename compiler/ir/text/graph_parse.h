/* SPDX-License-Identifier: Apache-2.0 */
/* Text to graph (docs/ir.md). */
#ifndef REMAT_GRAPH_PARSE_H
#define REMAT_GRAPH_PARSE_H

#include "graph.h"

/* Reads untrusted text into a graph in `arena` and verifies it (remat_graph_verify). `text` need
 * not be terminated nor outlive the call. Messages: `name:line: ...`, and `name: ...` where the
 * graph as a whole is wrong. */
remat_status remat_graph_parse(remat_context *ctx, const char *name, const char *text, size_t bytes,
                               struct remat_arena *arena, struct remat_graph **out);

#endif
