/* Graph files in either form, told apart by their contents. */
#ifndef REMAT_TOOLS_GRAPH_FILE_H
#define REMAT_TOOLS_GRAPH_FILE_H

#include "graph.h"

/* `data` is followed by a zero byte and outlives the graph; `name` starts messages. */
remat_status graph_file_parse(remat_context *ctx, const char *name, const char *data, size_t bytes,
                              struct remat_arena *arena, struct remat_graph **out);

#endif
