/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters.h"

#include "graph_file.h"
#include "ingest.h"
#include "models.h"

remat_status remat_adapters_make(remat_context *ctx, struct remat_arena *arena, const char *path,
                                 const char *bindings, int64_t rank, const void **out_data,
                                 size_t *out_bytes, const char **why)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_graph *graph, *made = NULL;
    *out_data = NULL;
    REMAT_TRY(remat_graph_file_read(ctx, path, arena, &graph));
    REMAT_TRY(remat_graph_set_symbols(ctx, path, bindings, graph));
    REMAT_TRY(remat_model_remake(ctx, arena, graph, &settings, why));
    if (*why)
        return REMAT_OK;
    settings.lora.rank = rank;
    REMAT_TRY(remat_model_generate_symbolic(ctx, arena, &settings, &made));
    made->plan_only = graph->plan_only;
    REMAT_TRY(remat_graph_write(ctx, made, arena, out_data, out_bytes));
fail:
    return st;
}
