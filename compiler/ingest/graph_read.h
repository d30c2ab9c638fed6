/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files (schemas/graph.fbs, docs/formats.md) to graphs; nobody trusts their bytes. */
#ifndef REMAT_GRAPH_READ_H
#define REMAT_GRAPH_READ_H

#include "graph.h"

/* Verifies the structure with the FlatBuffers library, then every index, shape, type, attribute and
 * the order in one pass, then remat_graph_verify_symbolic. Messages are located:
 * `model.fbs: nodes[17] "h.3.attn.qkv" (linear): input value 9021 is out of range (812 values)`.
 * `name` starts every message. The graph lies in `arena` and does not refer to `data`. */
remat_status remat_graph_read(remat_context *ctx, const char *name, const void *data, size_t bytes,
                              struct remat_arena *arena, struct remat_graph **out);

#endif
