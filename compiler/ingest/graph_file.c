/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_file.h"

#include "file.h"
#include "graph_text.h"
#include "ingest.h"
#include "ops.h"

#include <errno.h>
#include <stdlib.h>

#define BINDING_BYTES 64

/* The text form begins with the word graph, after comments and empty lines. */
static bool is_text_form(const char *data)
{
    while (*data == '#' || (*data && strchr(" \t\r\n", *data)))
        data += *data == '#' ? strcspn(data, "\n") : 1;
    return strncmp(data, "graph", 5) == 0 && (data[5] == ' ' || data[5] == '\t');
}

remat_status remat_graph_file_parse(remat_context *ctx, const char *name, const char *data,
                                    size_t bytes, struct remat_arena *arena,
                                    struct remat_graph **out)
{
    return is_text_form(data) ? remat_graph_parse(ctx, name, data, bytes, arena, out)
                              : remat_graph_read(ctx, name, data, bytes, arena, out);
}

remat_status remat_graph_file_read(remat_context *ctx, const char *path, struct remat_arena *arena,
                                   struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY(remat_graph_file_parse(ctx, path, data, bytes, arena, out));
fail:
    return st;
}

/* --- symbols --- */

static remat_status prefix(remat_context *ctx, const char *name, remat_status st)
{
    if (st != REMAT_ERROR_INVALID && st != REMAT_ERROR_USAGE)
        return st;
    return remat_error(ctx, st, "%s: %s", name, ctx->message);
}

/* NAME=VALUE, of `length` bytes. */
static remat_status set_symbol(remat_context *ctx, const char *binding, size_t length,
                               struct remat_graph *graph, uint32_t *set)
{
    remat_status st = REMAT_OK;
    char name[BINDING_BYTES], *end = NULL;
    long long value = 0;
    if (length < sizeof name) {
        memcpy(name, binding, length);
        name[length] = 0;
        char *equal = strchr(name, '=');
        if (equal) {
            *equal = 0;
            errno = 0;
            value = strtoll(equal + 1, &end, 10);
            end = end == equal + 1 ? NULL : end;
        }
    }
    if (!end || *end)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--bind '%.*s' is malformed (accepted: SYMBOL=N, several with commas between)",
                   length > 60 ? 60 : (int)length, binding);
    REMAT_TRY(remat_graph_set_symbol(ctx, graph, name, value));
    uint32_t bit = 1u << (remat_graph_symbol(graph, name) - graph->symbols);
    if (*set & bit)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind gives symbol \"%s\" twice", name);
    *set |= bit;
fail:
    return st;
}

remat_status remat_graph_set_symbols(remat_context *ctx, const char *name, const char *bindings,
                                     struct remat_graph *graph)
{
    remat_status st = REMAT_OK;
    uint32_t set = 0;
    for (const char *at = bindings; st == REMAT_OK && *at;) {
        size_t length = strcspn(at, ",");
        st = set_symbol(ctx, at, length, graph, &set);
        at += length + (at[length] == ',' && at[length + 1]);
    }
    return prefix(ctx, name, st);
}

remat_status remat_graph_file_bind(remat_context *ctx, const char *name, struct remat_arena *arena,
                                   const struct remat_graph *graph, struct remat_graph **out)
{
    return prefix(ctx, name, remat_graph_bind(ctx, arena, graph, out));
}
