/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest that is found of everything that could be smallest: to be refused with, or as a last
 * resort. */
#include "paths.h"

#include <inttypes.h>

/* Takes the rung when its packed arena, which is no smaller than its live peak, is smaller. */
static remat_status take_smaller(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner, struct remat_rung *rung,
                                 struct remat_rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    REMAT_TRY(remat_rung_try(c, scratch, planner, rung, *arena_bytes, &bytes));
    if (bytes < *arena_bytes) {
        *smallest = *rung;
        *arena_bytes = bytes;
    }
fail:
    return st;
}

static bool nothing_yet(uint64_t arena_bytes)
{
    return arena_bytes == UINT64_MAX;
}

static remat_status take_smallest(struct remat_chooser *c, struct remat_arena *scratch,
                                  const struct remat_planner *planner, struct remat_rungs *rungs,
                                  struct remat_rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    for (size_t i = rungs->count;
         i-- > 0 && (nothing_yet(*arena_bytes) || !remat_choose_is_over(c));)
        if (rungs->items[i].least.live_bytes < *arena_bytes)
            REMAT_TRY(take_smaller(c, scratch, planner, &rungs->items[i], smallest, arena_bytes));
fail:
    return st;
}

/* What is found with less and less room, until nothing is: the ends of paths need not be smallest.
 */
static remat_status shrink(struct remat_chooser *c, struct remat_arena *scratch,
                           const struct remat_planner *planner, uint32_t path,
                           struct remat_rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    bool found = true;
    while (found && !remat_choose_is_over(c)) {
        uint64_t room;
        found = false;
        REMAT_TRY(remat_paths_search(c, scratch, planner, path, *arena_bytes - 1, smallest, &found,
                                     &room));
        *arena_bytes = room < *arena_bytes ? room : *arena_bytes;
    }
fail:
    return st;
}

remat_status remat_refuse(struct remat_chooser *c, struct remat_arena *scratch,
                          struct remat_planner *planner, struct remat_rungs *rungs,
                          struct remat_rungs *near)
{
    remat_status st = REMAT_OK;
    struct remat_rung smallest = {0};
    struct remat_candidate candidate;
    struct remat_notes ignored = {0};
    uint64_t bytes = UINT64_MAX;
    uint32_t path_count = 0;
    if (planner)
        REMAT_TRY(remat_choose_path_count(c, scratch, planner, &path_count));
    for (uint32_t path = 0; path < path_count && (nothing_yet(bytes) || !remat_choose_is_over(c));
         path++) {
        uint32_t end;
        REMAT_TRY(remat_paths_end(c, scratch, planner, path, &end));
        struct remat_rung rung = {.of = {"per-op", NULL, path, end - 1}};
        REMAT_TRY(take_smaller(c, scratch, planner, &rung, &smallest, &bytes));
    }
    REMAT_TRY(take_smallest(c, scratch, planner, rungs, &smallest, &bytes));
    if (near)
        REMAT_TRY(take_smallest(c, scratch, planner, near, &smallest, &bytes));
    for (uint32_t path = 0; path < path_count; path++)
        REMAT_TRY(shrink(c, scratch, planner, path, &smallest, &bytes));
    REMAT_TRY(remat_rung_carry(c, c->arena, planner, &smallest, &ignored, &candidate));
    st = remat_infeasible(c, &candidate, bytes, planner ? remat_planner_floor(planner) : 0);
fail:
    return st;
}

/* --- the last resort --- */

static remat_status find_nothing(const struct remat_chooser *c, const struct remat_planner *planner)
{
    uint64_t floor_bytes = remat_planner_floor(planner), budget_bytes = c->settings->budget_bytes;
    if (c->limit_bytes < floor_bytes)
        return remat_error(c->ctx, REMAT_ERROR_INFEASIBLE,
                           "budget %" PRIu64 " B is too small. Proven: no choice of what to "
                           "recompute needs less than %" PRIu64 " B",
                           budget_bytes, floor_bytes + c->reserve_bytes);
    return remat_error(c->ctx, REMAT_ERROR_CUT_SHORT,
                       "the search was ended before it found a plan for %" PRIu64
                       " B; there may be one",
                       budget_bytes);
}

/* Everything saved: where there is room for it, nothing found in a moment is faster. */
static remat_status rescue_saved(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner,
                                 const struct remat_rungs *rungs, struct remat_rung *best,
                                 bool *found)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    for (size_t i = 0; i < rungs->count && !*found; i++) {
        if (rungs->items[i].of.policy->granularity != REMAT_POLICY_NONE ||
            rungs->items[i].least.live_bytes > c->limit_bytes)
            continue;
        *best = rungs->items[i];
        REMAT_TRY(remat_rung_try(c, scratch, planner, best, c->limit_bytes, &bytes));
        *found = bytes <= c->limit_bytes;
    }
fail:
    return st;
}

/* The last decisions of paths that are not nested. Larger groups are larger. */
static remat_status rescue_plain(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner, struct remat_rung *best,
                                 bool *found)
{
    remat_status st = REMAT_OK;
    uint64_t bytes, live_bytes = UINT64_MAX;
    uint32_t count = remat_planner_path_count(planner);
    for (uint32_t path = 0; path < count && !*found; path++) {
        uint32_t last = remat_planner_path_length(planner, path) - 1;
        *best = (struct remat_rung){.of = {"per-op", NULL, path, last}};
        REMAT_TRY(remat_rung_try(c, scratch, planner, best, c->limit_bytes, &bytes));
        *found = bytes <= c->limit_bytes;
        if (path > remat_planner_single_count(planner) && best->cost.live_peak_bytes >= live_bytes)
            break;
        live_bytes = best->cost.live_peak_bytes;
    }
fail:
    return st;
}

static remat_status rescue_policies(struct remat_chooser *c, struct remat_arena *scratch,
                                    const struct remat_planner *planner, struct remat_rungs *rungs,
                                    struct remat_rung *best, bool *found)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    for (size_t i = rungs->count; i-- > 0 && !*found;) {
        *best = rungs->items[i];
        if (best->least.live_bytes > c->limit_bytes)
            continue;
        REMAT_TRY(remat_rung_try(c, scratch, planner, best, c->limit_bytes, &bytes));
        *found = bytes <= c->limit_bytes;
    }
fail:
    return st;
}

/* Those of the first path, which leads to the smallest; before them it is larger. */
static remat_status rescue_nested(struct remat_chooser *c, struct remat_arena *scratch,
                                  const struct remat_planner *planner, struct remat_rung *best,
                                  bool *found)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    uint32_t length = remat_planner_path_length(planner, 0), end;
    REMAT_TRY(remat_paths_end(c, scratch, planner, 0, &end));
    for (uint32_t step = end; step-- > length && !*found;) {
        *best = (struct remat_rung){.of = {"per-op", NULL, 0, step}};
        REMAT_TRY(remat_rung_try(c, scratch, planner, best, c->limit_bytes, &bytes));
        *found = bytes <= c->limit_bytes;
        if (best->cost.live_peak_bytes > c->limit_bytes)
            break;
    }
fail:
    return st;
}

remat_status remat_paths_rescue(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, bool paths,
                                struct remat_rungs *rungs, struct remat_rung *best)
{
    remat_status st = REMAT_OK;
    bool found = false;
    if (c->limit_bytes < remat_planner_floor(planner))
        return find_nothing(c, planner);
    REMAT_TRY(rescue_saved(c, scratch, planner, rungs, best, &found));
    if (!found && paths)
        REMAT_TRY(rescue_plain(c, scratch, planner, best, &found));
    if (!found)
        REMAT_TRY(rescue_policies(c, scratch, planner, rungs, best, &found));
    if (!found && paths)
        REMAT_TRY(rescue_nested(c, scratch, planner, best, &found));
    if (!found)
        st = find_nothing(c, planner);
fail:
    return st;
}
