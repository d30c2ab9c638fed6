/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs to graph files (schemas/graph.fbs, docs/formats.md). */
#ifndef REMAT_GRAPH_WRITE_H
#define REMAT_GRAPH_WRITE_H

#include "graph.h"

/* Graph -> file bytes in `arena`. Same graph, same bytes. */
remat_status remat_graph_write(remat_context *ctx, const struct remat_graph *graph,
                               struct remat_arena *arena, const void **out_data, size_t *out_bytes);

#endif
