/* SPDX-License-Identifier: Apache-2.0 */
/* Names are sorted once, so that equal ones are neighbours; the first appearance stands for all. */
#include "statics.h"

#include <assert.h>
#include <stdlib.h>

struct appearance {
    const struct remat_value_info *info;
    uint32_t order;
};

static int compare_appearances(const void *a, const void *b)
{
    const struct appearance *x = a, *y = b;
    int names = strcmp(x->info->name, y->info->name);
    return names ? names : (x->order > y->order) - (x->order < y->order);
}

static int compare_orders(const void *a, const void *b)
{
    const struct appearance *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
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
                out[count] = (struct appearance){&graph->values[v], count}, count++;
        for (uint32_t o = 0; o < graph->output_count; o++)
            out[count] = (struct appearance){&graph->values[graph->outputs[o].i], count}, count++;
    }
    *out_count = count;
    return out;
}

/* Keeps the first of each name of a list sorted by name; returns how many. */
static uint32_t merge(struct appearance *found, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct remat_value_info *first = kept ? found[kept - 1].info : NULL;
        const struct remat_value_info *info = found[i].info;
        if (!first || strcmp(first->name, info->name) != 0)
            found[kept++] = found[i];
        else
            assert(first->dtype == info->dtype && remat_shape_equal(&first->shape, &info->shape));
    }
    return kept;
}

struct remat_statics remat_statics_collect(struct remat_arena *arena,
                                           const struct remat_graph *const *graphs,
                                           uint32_t graph_count, uint64_t workspace_bytes)
{
    struct remat_statics out = {.workspace_bytes =
                                    remat_align_up(workspace_bytes, REMAT_ALIGNMENT)};
    uint32_t appearances;
    struct appearance *found = list(arena, graphs, graph_count, &appearances);
    qsort(found, appearances, sizeof *found, compare_appearances);
    out.count = merge(found, appearances);
    qsort(found, out.count, sizeof *found, compare_orders);
    REMAT_NEW(arena, out.items, out.count);
    REMAT_NEW(arena, out.by_name, out.count);
    for (uint32_t i = 0; i < out.count; i++) {
        uint64_t bytes = remat_value_bytes(found[i].info);
        out.items[i] = (struct remat_static){found[i].info, out.total_bytes, bytes};
        out.total_bytes += remat_align_up(bytes, REMAT_ALIGNMENT);
        found[i].order = i;
    }
    out.total_bytes += out.workspace_bytes;
    qsort(found, out.count, sizeof *found, compare_appearances);
    for (uint32_t i = 0; i < out.count; i++)
        out.by_name[i] = found[i].order;
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
