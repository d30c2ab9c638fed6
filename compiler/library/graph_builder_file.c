/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs from files, and as files. */
#include "library.h"

#include "file.h"
#include "files.h"
#include "graph_file.h"
#include "ingest.h"

struct graph_bytes { /* arguments of a guarded call */
    remat_graph_builder *graph;
    const char *name;
    const char *data; /* NULL: the file of that name */
    size_t bytes;
};

static remat_status parse(void *user)
{
    const struct graph_bytes *given = user;
    remat_graph_builder *g = given->graph;
    struct remat_arena *arena = &g->handle.arena;
    remat_context *ctx = g->handle.ctx;
    const char *data = given->data;
    g->label = remat_string(arena, given->name, strlen(given->name));
    if (!data)
        return remat_graph_file_read(ctx, g->label, arena, &g->graph);
    data = remat_string(arena, data, given->bytes);
    return remat_graph_file_parse(ctx, g->label, data, given->bytes, arena, &g->graph);
}

static remat_status open_graph(remat_context *ctx, struct graph_bytes given,
                               remat_graph_builder **out)
{
    given.graph = *out = remat_handle_open(ctx, "graph", sizeof **out);
    if (!*out)
        return REMAT_ERROR_MEMORY;
    remat_status st = remat_guard(ctx, parse, &given);
    (*out)->finished = st == REMAT_OK;
    if (st != REMAT_OK)
        remat_graph_builder_destroy(out);
    return st;
}

remat_status remat_graph_builder_read(remat_context *ctx, const char *path,
                                      remat_graph_builder **out)
{
    return open_graph(ctx, (struct graph_bytes){.name = path}, out);
}

remat_status remat_graph_builder_parse(remat_context *ctx, const char *name, const void *data,
                                       size_t bytes, remat_graph_builder **out)
{
    return open_graph(ctx, (struct graph_bytes){.name = name, .data = data, .bytes = bytes}, out);
}

struct graph_writing { /* arguments of a guarded call */
    remat_context *ctx;
    const remat_graph_builder *graph;
    const char *path;
};

static remat_status write_file(void *user)
{
    const struct graph_writing *w = user;
    struct remat_arena *scratch = remat_scratch_open(w->ctx);
    const void *data;
    size_t bytes;
    REMAT_CHECK(remat_graph_write(w->ctx, w->graph->graph, scratch, &data, &bytes));
    REMAT_CHECK(remat_file_write(w->ctx, w->path, data, bytes));
    remat_scratch_close(scratch);
    return REMAT_OK;
}

remat_status remat_graph_builder_write(remat_context *ctx, const remat_graph_builder *graph,
                                       const char *path)
{
    struct graph_writing w = {ctx, graph, path};
    REMAT_CHECK(remat_check_finished(ctx, graph));
    return remat_guard(ctx, write_file, &w);
}
