/* SPDX-License-Identifier: Apache-2.0 */
/* The first appearance of a name stands for all. */
#include "statics.h"

#include <assert.h>

uint32_t remat_statics_find(const struct remat_statics *statics, const char *name)
{
    uint32_t found;
    for (size_t at = 0; (found = remat_index_find(&statics->by_name, remat_hash_string(name, 0),
                                                  &at)) != REMAT_NONE;)
        if (strcmp(statics->items[found].info->name, name) == 0)
            break;
    return found;
}

static void add(struct remat_arena *arena, struct remat_statics *out,
                const struct remat_value_info *info)
{
    uint32_t known = remat_statics_find(out, info->name);
    uint64_t bytes = remat_value_bytes(info);
    if (!remat_is_none(known)) {
        assert(out->items[known].info->dtype == info->dtype &&
               remat_shape_equal(&out->items[known].info->shape, &info->shape));
        return;
    }
    remat_index_add(arena, &out->by_name, remat_hash_string(info->name, 0), (uint32_t)out->count);
    REMAT_PUSH(arena, out, ((struct remat_static){info, out->total_bytes, bytes}));
    out->total_bytes += remat_align_up(bytes, REMAT_ALIGNMENT);
}

struct remat_statics remat_statics_collect(struct remat_arena *arena,
                                           const struct remat_graph *const *graphs,
                                           uint32_t graph_count, uint64_t workspace_bytes)
{
    struct remat_statics out = {.workspace_bytes =
                                    remat_align_up(workspace_bytes, REMAT_ALIGNMENT)};
    for (uint32_t g = 0; g < graph_count; g++) {
        const struct remat_graph *graph = graphs[g];
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (remat_is_none(graph->values[v].node))
                add(arena, &out, &graph->values[v]);
        for (uint32_t o = 0; o < graph->output_count; o++)
            add(arena, &out, &graph->values[graph->outputs[o].i]);
    }
    out.total_bytes += out.workspace_bytes;
    return out;
}

uint32_t *remat_statics_inputs(struct remat_arena *arena, const struct remat_statics *statics,
                               const struct remat_graph *graph)
{
    uint32_t *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        bool input = remat_is_none(graph->values[v].node);
        out[v] = input ? remat_statics_find(statics, graph->values[v].name) : REMAT_NONE;
        assert(!input || !remat_is_none(out[v]));
    }
    return out;
}
