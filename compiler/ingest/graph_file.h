/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files in either form, told apart by their contents. */
#ifndef REMAT_GRAPH_FILE_H
#define REMAT_GRAPH_FILE_H

#include "graph.h"

/* `data` is followed by a zero byte and outlives the graph; `name` starts messages. */
remat_status remat_graph_file_parse(remat_context *ctx, const char *name, const char *data,
                                    size_t bytes, struct remat_arena *arena,
                                    struct remat_graph **out);

/* The file of that path. */
remat_status remat_graph_file_read(remat_context *ctx, const char *path, struct remat_arena *arena,
                                   struct remat_graph **out);

/* Gives the graph's symbols the values of `bindings` ("batch=8,seq=1024", may be empty), on top of
 * their own. REMAT_ERROR_USAGE: one that is malformed, given twice, unknown or out of range. */
remat_status remat_graph_set_symbols(remat_context *ctx, const char *name, const char *bindings,
                                     struct remat_graph *graph);
/* remat_graph_bind, with `name` before its messages. */
remat_status remat_graph_file_bind(remat_context *ctx, const char *name, struct remat_arena *arena,
                                   const struct remat_graph *graph, struct remat_graph **out);

#endif
