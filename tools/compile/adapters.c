/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters.h"

#include "graph_file.h"
#include "models.h"

remat_status adapters_make(remat_context *ctx, struct remat_arena *arena, const char *path,
                           const struct remat_graph *graph, const char *bindings, int64_t rank,
                           const struct remat_graph **out, const char **why)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_graph *bound = remat_graph_copy(arena, graph, 1), *made = NULL;
    *out = NULL;
    REMAT_TRY(remat_graph_set_symbols(ctx, path, bindings, bound));
    REMAT_TRY(remat_model_remake(ctx, arena, bound, &settings, why));
    if (*why)
        return REMAT_OK;
    settings.lora.rank = rank;
    REMAT_TRY(remat_model_generate_symbolic(ctx, arena, &settings, &made));
    made->plan_only = graph->plan_only;
    *out = made;
fail:
    return st;
}
