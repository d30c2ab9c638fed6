/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files (schemas/graph.fbs, docs/formats.md): graph_read.c reads them, graph_write.c writes
 * them. */
#ifndef REMAT_INGEST_H
#define REMAT_INGEST_H

#include "graph.h"

/* Reads an untrusted file into a graph in `arena`, which does not refer to `data`. The FlatBuffers
 * library verifies the structure; one pass then checks every index, shape, type, attribute and the
 * order of nodes, and remat_graph_verify_symbolic the rest. Messages begin with `name` and locate
 * the fault:
 * `model.fbs: nodes[17] "h.3.attn.qkv" (linear): input value 9021 is out of range (812 values)`. */
remat_status remat_graph_read(remat_context *ctx, const char *name, const void *data, size_t bytes,
                              struct remat_arena *arena, struct remat_graph **out);

/* Writes a graph as the bytes of a file, in `arena`. Equal graphs give equal bytes. */
remat_status remat_graph_write(remat_context *ctx, const struct remat_graph *graph,
                               struct remat_arena *arena, const void **out_data, size_t *out_bytes);

#endif
