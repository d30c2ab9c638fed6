/* SPDX-License-Identifier: Apache-2.0 */
/* Names are sorted once, so that equal ones are neighbours; the first appearance stands for all. */
#include "statics.h"

#include <assert.h>
#include <stdlib.h>

struct appearance {
    const struct remat_value_info *info;
    uint32_t order;
    bool first; /* of its name */
};

static int compare_appearances(const void *a, const void *b)
{
    const struct appearance *x = *(struct appearance *const *)a,
                            *y = *(struct appearance *const *)b;
    int names = strcmp(x->info->name, y->info->name);
    return names ? names : (x->order > y->order) - (x->order < y->order);
}

/* The inputs and outputs of the graphs, in order. */
static struct appearance *list(struct remat_arena *arena, const struct remat_graph *const *graphs,
                               uint32_t graph_count, uint32_t *out_count)
{
    size_t most = 0;
    uint32_t count = 0;
    struct appearance *out;
    for (uint32_t g = 0; g < graph_count; g++)
        most += graphs[g]->value_count + graphs[g]->output_count;
    REMAT_NEW(arena, out, most);
    for (uint32_t g = 0; g < graph_count; g++) {
        const struct remat_graph *graph = graphs[g];
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (remat_is_none(graph->values[v].node))
                out[count] = (struct appearance){&graph->values[v], count, false}, count++;
        for (uint32_t o = 0; o < graph->output_count; o++)
            out[count] = (struct appearance){&graph->values[graph->outputs[o].i], count, false},
            count++;
    }
    *out_count = count;
    return out;
}

struct remat_statics remat_statics_collect(struct remat_arena *arena,
                                           const struct remat_graph *const *graphs,
                                           uint32_t graph_count, uint64_t workspace_bytes)
{
    struct remat_statics out = {.workspace_bytes =
                                    remat_align_up(workspace_bytes, REMAT_ALIGNMENT)};
    uint32_t count, named = 0, *index;
    struct appearance *found = list(arena, graphs, graph_count, &count), **sorted;
    REMAT_NEW(arena, sorted, count);
    REMAT_NEW(arena, index, count);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &found[i];
    qsort(sorted, count, sizeof *sorted, compare_appearances);
    for (uint32_t i = 0; i < count; i++) {
        const struct remat_value_info *info = sorted[i]->info,
                                      *last = i ? sorted[i - 1]->info : NULL;
        sorted[i]->first = !last || strcmp(last->name, info->name) != 0;
        assert(sorted[i]->first ||
               (last->dtype == info->dtype && remat_shape_equal(&last->shape, &info->shape)));
    }
    REMAT_NEW(arena, out.items, count);
    REMAT_NEW(arena, out.by_name, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!found[i].first)
            continue;
        uint64_t bytes = remat_value_bytes(found[i].info);
        index[i] = out.count;
        out.items[out.count++] = (struct remat_static){found[i].info, out.total_bytes, bytes};
        out.total_bytes += remat_align_up(bytes, REMAT_ALIGNMENT);
    }
    out.total_bytes += out.workspace_bytes;
    for (uint32_t i = 0; i < count; i++)
        if (sorted[i]->first)
            out.by_name[named++] = index[sorted[i]->order];
    return out;
}

uint32_t remat_statics_find(const struct remat_statics *statics, const char *name)
{
    uint32_t begin = 0, end = statics->count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        int order = strcmp(statics->items[statics->by_name[middle]].info->name, name);
        if (order == 0)
            return statics->by_name[middle];
        if (order < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return REMAT_NONE;
}

struct remat_static_inputs remat_statics_inputs(struct remat_arena *arena,
                                                const struct remat_statics *statics,
                                                const struct remat_graph *graph)
{
    struct remat_static_inputs out = {0};
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        count += remat_is_none(graph->values[v].node);
    REMAT_NEW(arena, out.values, count);
    REMAT_NEW(arena, out.statics, count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!remat_is_none(graph->values[v].node))
            continue;
        uint32_t found = remat_statics_find(statics, graph->values[v].name);
        assert(!remat_is_none(found));
        out.values[out.count] = v;
        out.statics[out.count++] = found;
    }
    return out;
}
