/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to text (docs/ir.md). */
#ifndef REMAT_GRAPH_PRINT_H
#define REMAT_GRAPH_PRINT_H

#include "graph.h"

/* Appends a verified graph to `text`. */
void remat_graph_print(const struct remat_graph *graph, struct remat_text *text);

#endif
