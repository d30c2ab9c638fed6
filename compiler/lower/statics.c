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

static void append(struct appearance *list, uint32_t *count, const struct remat_value_info *info)
{
    list[*count] = (struct appearance){info, *count};
    ++*count;
}

static void list(struct remat_arena *arena, const struct remat_graph *const *graphs,
                 uint32_t graph_count, struct appearance **out, uint32_t *out_count)
{
    size_t values = 0;
    for (uint32_t g = 0; g < graph_count; g++)
        values += graphs[g]->value_count + graphs[g]->output_count;
    *out_count = 0;
    REMAT_NEW(arena, *out, values);
    for (uint32_t g = 0; g < graph_count; g++) {
        const struct remat_graph *graph = graphs[g];
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (remat_is_none(graph->values[v].node))
                append(*out, out_count, &graph->values[v]);
        for (uint32_t o = 0; o < graph->output_count; o++)
            append(*out, out_count, &graph->values[graph->outputs[o].i]);
    }
}

/* Keeps the first of each name. `found` is sorted by name. */
static void merge(struct appearance *found, uint32_t *count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        const struct remat_value_info *first = kept ? found[kept - 1].info : NULL;
        const struct remat_value_info *info = found[i].info;
        if (!first || strcmp(first->name, info->name) != 0)
            found[kept++] = found[i];
        else
            assert(first->dtype == info->dtype && remat_shape_equal(&first->shape, &info->shape));
    }
    *count = kept;
}

static remat_status lay_out(remat_context *ctx, struct remat_arena *arena,
                            const struct appearance *found, uint32_t count,
                            struct remat_statics *out)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, out->items, count);
    REMAT_NEW(arena, out->by_name, count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = remat_value_bytes(found[i].info), end;
        if (!remat_add_u64(out->total_bytes, remat_align_up(bytes, REMAT_ALIGNMENT), &end) ||
            end > INT64_MAX)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "the values of the graph exceed 2^63 bytes");
        out->items[i] = (struct remat_static){found[i].info, out->total_bytes, bytes};
        out->total_bytes = end;
    }
    if (!remat_add_u64(out->total_bytes, out->workspace_bytes, &out->total_bytes) ||
        out->total_bytes > INT64_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "the values of the graph exceed 2^63 bytes");
    out->count = count;
fail:
    return st;
}

remat_status remat_statics_collect(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_graph *const *graphs, uint32_t graph_count,
                                   uint64_t workspace_bytes, struct remat_statics *out)
{
    remat_status st = REMAT_OK;
    struct appearance *found;
    uint32_t count;
    *out =
        (struct remat_statics){.workspace_bytes = remat_align_up(workspace_bytes, REMAT_ALIGNMENT)};
    list(arena, graphs, graph_count, &found, &count);
    qsort(found, count, sizeof *found, compare_appearances);
    merge(found, &count);
    qsort(found, count, sizeof *found, compare_orders);
    REMAT_TRY(lay_out(ctx, arena, found, count, out));
    for (uint32_t i = 0; i < count; i++)
        found[i].order = i;
    qsort(found, count, sizeof *found, compare_appearances);
    for (uint32_t i = 0; i < count; i++)
        out->by_name[i] = found[i].order;
fail:
    return st;
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

void remat_statics_inputs(struct remat_arena *arena, const struct remat_statics *statics,
                          const struct remat_graph *graph, struct remat_static_inputs *out)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        count += remat_is_none(graph->values[v].node);
    *out = (struct remat_static_inputs){0};
    REMAT_NEW(arena, out->values, count);
    REMAT_NEW(arena, out->statics, count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!remat_is_none(graph->values[v].node))
            continue;
        uint32_t found = remat_statics_find(statics, graph->values[v].name);
        assert(!remat_is_none(found));
        out->values[out->count] = v;
        out->statics[out->count++] = found;
    }
}
