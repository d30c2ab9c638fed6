/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings.h"

#include "graph_file.h"

#include <inttypes.h>

uint32_t remat_microbatches(const struct remat_compile_settings *settings)
{
    return settings->passes.microbatches * remat_mesh_size(&settings->mesh, "dp");
}

/* The symbol batch becomes that of a microbatch of a rank. */
static remat_status divide_batch(remat_context *ctx, const char *path, struct remat_graph *graph,
                                 const struct remat_compile_settings *settings)
{
    struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    uint32_t count = remat_microbatches(settings), ranks = remat_mesh_size(&settings->mesh, "dp");
    if (count == 1)
        return REMAT_OK;
    if (!batch)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: --%s needs a graph with the symbol \"batch\"", path,
                           ranks > 1 ? "mesh" : "microbatches");
    if (batch->value % count && settings->passes.microbatches <= 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " ranks along dp", path,
                           (long long)batch->value, ranks);
    if (batch->value % count && ranks > 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32
                           " ranks along dp times %" PRIu32 " microbatches",
                           path, (long long)batch->value, ranks, settings->passes.microbatches);
    if (batch->value % count)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " microbatches", path,
                           (long long)batch->value, count);
    batch->value /= count; /* 0, without a value, is refused where the symbol is used */
    return REMAT_OK;
}

remat_status remat_asked_bind(const struct remat_request *r,
                              const struct remat_compile_settings *settings, const char *bindings,
                              struct remat_arena *arena, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    const char *model = r->asked->model;
    struct remat_arena *scratch = remat_scratch_open(r->ctx);
    struct remat_graph *graph = remat_graph_copy(scratch, r->graph, 1);
    REMAT_TRY(remat_graph_set_symbols(r->ctx, model, bindings, graph));
    REMAT_TRY(divide_batch(r->ctx, model, graph, settings));
    REMAT_TRY(remat_graph_file_bind(r->ctx, model, arena, graph, out));
fail:
    remat_scratch_close(scratch);
    return st;
}

double remat_asked_work(const struct remat_graph *symbols, const char **unit)
{
    static const char *const lengths[] = {"seq", "source_seq"};
    const struct remat_symbol *batch = remat_graph_symbol(symbols, "batch");
    double tokens = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct remat_symbol *length = remat_graph_symbol(symbols, lengths[i]);
        tokens += batch && length ? (double)batch->value * (double)length->value : 0;
    }
    *unit = tokens > 0 ? "tokens" : batch ? "sequences" : NULL;
    return tokens > 0 ? tokens : batch ? (double)batch->value : 0;
}
