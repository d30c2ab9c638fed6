/* SPDX-License-Identifier: Apache-2.0 */
/* Along a path what is saved gets less, but what is live at once in a group or a layer may get
 * more: live peaks have valleys. Samples are the same for all budgets, so that more room never
 * leads to something slower. */
#include "samples.h"

#include "paths.h"

enum { NODES_SAMPLED = 12000000 }; /* in all graphs of the samples together */

static uint32_t decision_count(const struct remat_planner *planner, uint32_t path)
{
    return remat_planner_path_length(planner, path) + remat_planner_nested_count(planner, path);
}

/* How far samples lie apart: there are about as many of each path. */
static uint32_t find_stride(const struct remat_chooser *c, const struct remat_planner *planner,
                            uint32_t path_count, uint32_t path)
{
    uint64_t nodes = (uint64_t)decision_count(planner, path) * c->graph->node_count;
    return (uint32_t)(nodes * path_count / NODES_SAMPLED) + 1;
}

static uint32_t sample_count(const struct remat_planner *planner, uint32_t path, uint32_t stride)
{
    return (decision_count(planner, path) + stride - 1) / stride;
}

/* The last decision is a sample, and often the smallest. */
static struct remat_rung sample(const struct remat_planner *planner, uint32_t path, uint32_t stride,
                                uint32_t i)
{
    uint32_t behind = sample_count(planner, path, stride) - 1 - i;
    uint32_t step = decision_count(planner, path) - 1 - behind * stride;
    return (struct remat_rung){.of = {"per-op", NULL, path, step}};
}

/* How many of the path's samples may be faster than *best; NULL: all. But for a launch more or less
 * times rise along a path. */
static remat_status count_faster(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner, uint32_t path,
                                 uint32_t stride, const struct remat_rung *best, uint32_t *out)
{
    remat_status st = REMAT_OK;
    uint32_t low = 0, high = sample_count(planner, path, stride);
    if (!best)
        low = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct remat_rung rung = sample(planner, path, stride, middle);
        REMAT_TRY(remat_rung_find_least(c, scratch, planner, &rung));
        if (rung.least.step_ns < best->cost.step_ns)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
fail:
    return st;
}

remat_status remat_samples_list(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, const struct remat_rung *best,
                                struct remat_rungs *out)
{
    remat_status st = REMAT_OK;
    uint32_t index = (uint32_t)out->count, count, faster;
    REMAT_TRY(remat_choose_path_count(c, scratch, planner, &count));
    for (uint32_t path = 0; path < count; path++) {
        uint32_t stride = find_stride(c, planner, count, path);
        REMAT_TRY(
            count_faster(c, scratch, planner, path, stride, stride > 1 ? best : NULL, &faster));
        for (uint32_t i = 0; i < faster; i++) {
            struct remat_rung rung = sample(planner, path, stride, i);
            rung.index = index++;
            REMAT_PUSH(c->arena, out, rung);
        }
    }
fail:
    return st;
}

/* What lies between a sample, if that fits, and the one before. */
static remat_status refine(struct remat_chooser *c, struct remat_arena *scratch,
                           const struct remat_planner *planner, uint32_t stride,
                           struct remat_rung rung, struct remat_rung *best)
{
    remat_status st = REMAT_OK;
    uint32_t path = rung.of.path, last = rung.of.step;
    struct remat_rung first = {.of = {"per-op", NULL, path, last < stride ? 0 : last + 1 - stride}};
    uint64_t bytes;
    bool any = false;
    REMAT_TRY(remat_rung_find_least(c, scratch, planner, &first));
    if (first.least.step_ns >= best->cost.step_ns)
        return REMAT_OK;
    REMAT_TRY(remat_rung_try(c, scratch, planner, &rung, c->limit_bytes, &bytes));
    if (bytes <= c->limit_bytes)
        REMAT_TRY(remat_paths_bisect(c, scratch, planner, path, first.of.step, last, c->limit_bytes,
                                     &rung, &any, &bytes));
    if (any && remat_rung_compare(&rung, best) < 0)
        *best = rung;
fail:
    return st;
}

remat_status remat_samples_refine(struct remat_chooser *c, struct remat_arena *scratch,
                                  const struct remat_planner *planner,
                                  const struct remat_rungs *compared, struct remat_rung *best)
{
    remat_status st = REMAT_OK;
    uint32_t count, faster;
    REMAT_TRY(remat_choose_path_count(c, scratch, planner, &count));
    for (size_t i = 0; i < compared->count && !remat_choose_is_over(c); i++) {
        const struct remat_rung *rung = &compared->items[i];
        uint32_t path = rung->of.path;
        if (!remat_is_none(path) && rung->cost.step_ns && rung->cost.arena_bytes <= c->limit_bytes)
            REMAT_TRY(
                refine(c, scratch, planner, find_stride(c, planner, count, path), *rung, best));
    }
    for (uint32_t path = 0; path < count && !remat_choose_is_over(c); path++) {
        uint32_t stride = find_stride(c, planner, count, path);
        REMAT_TRY(count_faster(c, scratch, planner, path, stride, best, &faster));
        if (faster < sample_count(planner, path, stride))
            REMAT_TRY(
                refine(c, scratch, planner, stride, sample(planner, path, stride, faster), best));
    }
fail:
    return st;
}
