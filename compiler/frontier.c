/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates are priced exactly and not packed: a point's memory is its live peak. First the paths,
 * then what is near corners, then the manual policies; evenly spaced ones of the paths where there
 * are many.
 */
#include "frontier.h"

#include "amounts.h"
#include "paths.h"
#include "survey.h"

#include <stdlib.h>

enum {
    NODES_PRICED = 1000000, /* of each kind of candidates: large graphs take no longer */
    SAMPLES_MIN = 16,       /* of each kind */
    SHARE_MIN = 4,          /* of each of the paths that share a kind */
};

/* --- the staircase --- */

/* Larger first; of equal ones the fastest first. */
static int compare_points(const void *a, const void *b)
{
    const struct remat_frontier_point *x = a, *y = b;
    if (x->live_peak_bytes != y->live_peak_bytes)
        return x->live_peak_bytes > y->live_peak_bytes ? -1 : 1;
    if (x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return strcmp(x->policy, y->policy);
}

/* Sorts, and drops points that another one is as small and as fast as. */
static void sort_points(struct remat_survey_points *points)
{
    struct remat_frontier_point *items = points->items;
    size_t kept = 0;
    if (points->count > 0)
        qsort(items, points->count, sizeof *items, compare_points);
    for (size_t i = 0; i < points->count; i++) {
        const struct remat_frontier_point point = items[i];
        if (kept > 0 && items[kept - 1].live_peak_bytes == point.live_peak_bytes)
            continue;
        while (kept > 0 && items[kept - 1].step_ns >= point.step_ns)
            kept--;
        items[kept++] = point;
    }
    points->count = kept;
}

/* --- candidates --- */

/* How many of `count` are samples, of a kind that has `all`. */
static uint32_t share_count(const struct remat_survey *s, uint32_t count, uint32_t all)
{
    uint32_t samples = NODES_PRICED / (s->chooser->graph->node_count + 1);
    samples = samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
    if (samples >= all)
        return count;
    samples = (uint32_t)((uint64_t)samples * count / all);
    samples = samples < SHARE_MIN ? SHARE_MIN : samples;
    return samples > count ? count : samples;
}

/* Each path of single layers is a kind; all those of groups are one. */
static uint32_t plain_count(const struct remat_survey *s, uint32_t path_count, uint32_t path)
{
    uint32_t length = remat_planner_path_length(s->planner, path), all = 0;
    uint32_t singles = remat_planner_single_count(s->planner);
    for (uint32_t p = singles; path >= singles && p < path_count; p++)
        all += remat_planner_path_length(s->planner, p);
    return share_count(s, length, path < singles ? length : all);
}

/* What is nested is one kind. */
static uint32_t nested_count(const struct remat_survey *s, uint32_t path_count, uint32_t path)
{
    uint32_t all = 0;
    for (uint32_t p = 0; p < path_count; p++)
        all += remat_planner_nested_count(s->planner, p);
    return share_count(s, remat_planner_nested_count(s->planner, path), all);
}

/* The first and the last are among the samples. */
static uint32_t sample_index(uint32_t i, uint32_t samples, uint32_t count)
{
    return samples > 1 ? (uint32_t)((uint64_t)i * (count - 1) / (samples - 1)) : 0;
}

static remat_status add_list(struct remat_survey *s, struct remat_survey_list list)
{
    remat_status st = REMAT_OK;
    if (list.count > 0)
        REMAT_PUSH(s->chooser->arena, &s->lists, list);
    s->chooser->state.to_see_count += list.count;
fail:
    return st;
}

static remat_status add_path(struct remat_survey *s, uint32_t path_count, uint32_t path)
{
    remat_status st = REMAT_OK;
    struct remat_survey_list plain = {.path = path, .priced_max = UINT32_MAX};
    struct remat_survey_list nested = plain;
    uint32_t length = remat_planner_path_length(s->planner, path), *indices;
    uint32_t nested_all = remat_planner_nested_count(s->planner, path);
    REMAT_TRY(remat_planner_path_samples(s->planner, s->chooser->arena, path,
                                         plain_count(s, path_count, path), &plain.count, &indices));
    nested.count = nested_count(s, path_count, path);
    REMAT_NEW(s->chooser->arena, plain.samples, plain.count);
    REMAT_NEW(s->chooser->arena, nested.samples, nested.count);
    for (uint32_t i = 0; i < plain.count; i++)
        plain.samples[i].index = indices[i];
    for (uint32_t i = 0; i < nested.count; i++) /* they come behind the last one of the path */
        nested.samples[i].index = length + sample_index(i, nested.count, nested_all);
    REMAT_TRY(add_list(s, plain));
    REMAT_TRY(add_list(s, nested));
    s->estimates |= plain.count < length || nested.count < nested_all;
fail:
    return st;
}

/* Those of no path: all may be priced, in large graphs some. */
static remat_status add_others(struct remat_survey *s, uint32_t count,
                               const struct remat_policy *policies)
{
    remat_status st = REMAT_OK;
    struct remat_survey_list list = {.path = REMAT_NONE,
                                     .policies = policies,
                                     .count = count,
                                     .priced_max = share_count(s, count, count)};
    if (!s->planner)
        list.count = list.priced_max;
    REMAT_NEW(s->chooser->arena, list.samples, list.count);
    for (uint32_t i = 0; i < list.count; i++)
        list.samples[i].index = sample_index(i, list.count, count);
    REMAT_TRY(add_list(s, list));
fail:
    return st;
}

/* At every tenth of what everything saved takes beside statics. */
static remat_status fill_rooms(struct remat_survey *s)
{
    remat_status st = REMAT_OK;
    uint64_t static_bytes = s->chooser->statics->total_bytes, most = static_bytes;
    for (size_t i = 0; i < s->points.count; i++)
        if (s->points.items[i].live_peak_bytes > most)
            most = s->points.items[i].live_peak_bytes;
    for (uint32_t tenth = 1; tenth < 10 && s->estimates; tenth++)
        REMAT_TRY(remat_survey_fill(s, static_bytes + (most - static_bytes) / 10 * tenth));
fail:
    return st;
}

/* *out_count: of candidates. */
static remat_status survey(struct remat_survey *s, uint32_t *out_count)
{
    remat_status st = REMAT_OK;
    struct remat_chooser *c = s->chooser;
    struct remat_policy *policies;
    uint32_t path_count = 0, near_count = 0, policy_count;
    size_t others;
    REMAT_TRY(remat_manual_policies(c->ctx, c->arena, c->graph, &policy_count, &policies));
    if (c->settings->solver == REMAT_SOLVER_PER_OP) {
        REMAT_TRY(remat_choose_planner(c, &s->planner));
        REMAT_TRY(remat_choose_path_count(c, &s->scratch, s->planner, &path_count));
        near_count = remat_planner_near_count(s->planner);
    }
    *out_count = near_count + policy_count;
    for (uint32_t path = 0; path < path_count; path++) {
        REMAT_TRY(add_path(s, path_count, path));
        *out_count += remat_planner_path_length(s->planner, path) +
                      remat_planner_nested_count(s->planner, path);
    }
    others = s->lists.count;
    if (near_count > 0)
        REMAT_TRY(add_others(s, near_count, NULL));
    REMAT_TRY(add_others(s, policy_count, policies));
    REMAT_TRY(remat_survey_price(s, 0, others));
    REMAT_TRY(fill_rooms(s));
    sort_points(&s->points);
    REMAT_TRY(remat_survey_price(s, others, s->lists.count));
fail:
    return st;
}

/* Times saturate, and what takes that long is no plan: remat_arrange refuses it. */
static void drop_endless(struct remat_survey_points *points)
{
    size_t kept = 0;
    for (size_t i = 0; i < points->count; i++)
        if (points->items[i].step_ns < REMAT_SEGMENT_NS_MAX)
            points->items[kept++] = points->items[i];
    points->count = kept;
}

remat_status remat_choose_frontier(struct remat_chooser *c, const struct remat_frontier_point *plan,
                                   struct remat_frontier *out)
{
    remat_status st = REMAT_OK;
    struct remat_survey s = {.chooser = c};
    uint32_t candidate_count;
    remat_arena_init(&s.scratch, c->ctx);
    REMAT_TRY(survey(&s, &candidate_count));
    if (plan)
        REMAT_PUSH(c->arena, &s.points, *plan);
    drop_endless(&s.points);
    sort_points(&s.points);
    *out = (struct remat_frontier){.points = s.points.items,
                                   .count = (uint32_t)s.points.count,
                                   .candidate_count = candidate_count,
                                   .seen_count = c->state.seen_count,
                                   .evaluated_count = (uint32_t)s.priced.count,
                                   .cut_short = c->over,
                                   .bounded = s.planner != NULL};
    if (s.planner)
        out->floor_bytes = remat_planner_floor(s.planner);
    for (uint32_t i = 0; i < out->count && out->bounded; i++) {
        struct remat_frontier_point *point = &out->points[i];
        REMAT_TRY(remat_planner_bound(s.planner, point->live_peak_bytes, &point->bound_ns));
        REMAT_TRY(remat_choose_check_bound(c, point->bound_ns, point->step_ns));
    }
    REMAT_TRY(remat_choose_base(c, &out->base_ns));
fail:
    remat_arena_release(&s.scratch);
    return st;
}
