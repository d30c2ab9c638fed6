/* SPDX-License-Identifier: Apache-2.0 */
/* A path is searched by bisection, which finds the same or an earlier decision when there is more
 * room, since whatever fits less room fits more. */
#include "paths.h"

enum { NODES_TRIED = 20000000 }; /* between two corners: in all graphs together */

remat_status remat_paths_bisect(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, uint32_t path, uint32_t low,
                                uint32_t high, uint64_t limit_bytes, struct remat_rung *best,
                                bool *any, uint64_t *room_bytes)
{
    remat_status st = REMAT_OK;
    while (low < high && !remat_choose_is_over(c)) {
        uint32_t middle = low + (high - low) / 2;
        struct remat_rung rung = {.of = {"per-op", NULL, path, middle}};
        uint64_t bytes;
        REMAT_TRY(remat_rung_try(c, scratch, planner, &rung, limit_bytes, &bytes));
        if (bytes <= limit_bytes) {
            *best = rung;
            *any = true;
            high = middle;
            *room_bytes = bytes > *room_bytes ? bytes : *room_bytes;
        } else {
            low = middle + 1;
        }
    }
fail:
    return st;
}

static remat_status live_peak(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, uint32_t path, uint32_t step,
                              uint64_t *out_bytes)
{
    struct remat_rung rung = {.of = {"per-op", NULL, path, step}};
    remat_status st = remat_rung_evaluate(c, scratch, planner, &rung, 0);
    *out_bytes = rung.cost.live_peak_bytes;
    return st;
}

/* Live peaks of nested decisions fall, and from some on they do not: bisection finds where. */
remat_status remat_paths_end(struct remat_chooser *c, struct remat_arena *scratch,
                             const struct remat_planner *planner, uint32_t path, uint32_t *out)
{
    remat_status st = REMAT_OK;
    uint32_t low = remat_planner_path_length(planner, path) - 1;
    uint32_t high = low + remat_planner_nested_count(planner, path);
    if (!c->path_ends)
        REMAT_NEW(c->arena, c->path_ends, remat_planner_path_count(planner));
    while (c->path_ends[path] == 0 && low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t bytes, next_bytes;
        REMAT_TRY(live_peak(c, scratch, planner, path, middle, &bytes));
        REMAT_TRY(live_peak(c, scratch, planner, path, middle + 1, &next_bytes));
        if (next_bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (c->path_ends[path] == 0)
        c->path_ends[path] = low + 1;
    *out = c->path_ends[path];
fail:
    return st;
}

remat_status remat_paths_search(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, uint32_t path,
                                uint64_t limit_bytes, struct remat_rung *best, bool *found,
                                uint64_t *room_bytes)
{
    remat_status st = REMAT_OK;
    uint32_t length = remat_planner_path_length(planner, path), end;
    bool any = false;
    *room_bytes = 0;
    REMAT_TRY(remat_paths_bisect(c, scratch, planner, path, 0, length, limit_bytes, best, &any,
                                 room_bytes));
    if (!any && !remat_choose_is_over(c)) {
        REMAT_TRY(remat_paths_end(c, scratch, planner, path, &end));
        REMAT_TRY(remat_paths_bisect(c, scratch, planner, path, length, end, limit_bytes, best,
                                     &any, room_bytes));
    }
    *found |= any;
    if (!any)
        *room_bytes = UINT64_MAX;
fail:
    return st;
}

/* Costs are not exactly those that order the path: a corner behind *best may be faster, and where
 * groups of layers form, what lies before the next one. */
static remat_status try_corners(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, struct remat_rung *best)
{
    remat_status st = REMAT_OK;
    uint32_t path = best->of.path, length = remat_planner_path_length(planner, path);
    uint32_t corner = remat_planner_path_corner(planner, path, best->of.step + 1);
    bool groups = path >= remat_planner_single_count(planner);
    uint64_t nodes = (uint64_t)(corner - best->of.step) * c->graph->node_count;
    uint32_t stride = 1 + (uint32_t)(nodes / NODES_TRIED);
    for (uint32_t next = best->of.step + 1; next < length && !remat_choose_is_over(c);
         next += next + stride <= corner ? stride : 1) {
        if (!groups || next > corner)
            next = remat_planner_path_corner(planner, path, next);
        struct remat_rung rung = {.of = {"per-op", NULL, path, next}};
        REMAT_TRY(remat_rung_find_least(c, scratch, planner, &rung));
        if (rung.least.step_ns >= best->cost.step_ns)
            continue;
        REMAT_TRY(remat_rung_evaluate(c, scratch, planner, &rung, c->limit_bytes));
        if (remat_rung_compare(&rung, best) < 0 && rung.cost.arena_bytes <= c->limit_bytes)
            *best = rung;
    }
fail:
    return st;
}

/* The group that is recomputed at once grows with its layers, what is saved between groups gets
 * less. Groups that need more than those before are the last ones: on the way to them there may be
 * something smaller yet. */
remat_status remat_choose_path_count(struct remat_chooser *c, struct remat_arena *scratch,
                                     const struct remat_planner *planner, uint32_t *out)
{
    remat_status st = REMAT_OK;
    uint32_t path = remat_planner_single_count(planner), count = remat_planner_path_count(planner);
    uint64_t least_bytes = UINT64_MAX;
    bool smaller = true;
    while (c->path_count == 0 && path < count && smaller && !remat_choose_is_over(c)) {
        uint32_t last = remat_planner_path_length(planner, path) - 1;
        struct remat_rung rung = {.of = {"per-op", NULL, path++, last}};
        REMAT_TRY(remat_rung_evaluate(c, scratch, planner, &rung, 0));
        smaller = rung.cost.live_peak_bytes < least_bytes;
        least_bytes = rung.cost.live_peak_bytes;
    }
    if (c->path_count == 0)
        c->path_count = path;
    *out = c->path_count;
fail:
    return st;
}

/* How many paths could lead to something faster than *best; NULL: there is none. */
static remat_status count_paths(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, const struct remat_rung *best,
                                uint32_t *out)
{
    remat_status st = REMAT_OK;
    struct remat_rung first = {.of = {"per-op", NULL, remat_planner_single_count(planner), 0}};
    *out = first.of.path;
    if (*out == remat_planner_path_count(planner))
        return REMAT_OK;
    if (best)
        REMAT_TRY(remat_rung_find_least(c, scratch, planner, &first));
    if (!best || first.least.step_ns < best->cost.step_ns)
        REMAT_TRY(remat_choose_path_count(c, scratch, planner, out));
fail:
    return st;
}

static bool is_nested(const struct remat_planner *planner, const struct remat_rung *rung)
{
    return rung->of.step >= remat_planner_path_length(planner, rung->of.path);
}

/* The fastest that the planner's paths lead to. Larger groups than the first that are no faster
 * hold more at once for the same time, unless what is nested takes longer. */
remat_status remat_paths_best(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct remat_rung *best,
                              bool *found)
{
    remat_status st = REMAT_OK;
    const uint32_t singles = remat_planner_single_count(planner);
    uint32_t count = singles;
    *found = false;
    for (uint32_t path = 0; path < count; path++) {
        struct remat_rung rung;
        uint64_t room;
        bool any = false;
        REMAT_TRY(
            remat_paths_search(c, scratch, planner, path, c->limit_bytes, &rung, &any, &room));
        if (any)
            REMAT_TRY(try_corners(c, scratch, planner, &rung));
        bool faster = any && (!*found || remat_rung_compare(&rung, best) < 0);
        if (faster)
            *best = rung;
        if (*found && !faster && path >= singles && !is_nested(planner, best))
            break;
        *found |= any;
        if (path + 1 == singles)
            REMAT_TRY(count_paths(c, scratch, planner, *found ? best : NULL, &count));
    }
fail:
    return st;
}
