/* Candidates are priced exactly and not packed: a point's memory is its live peak. First the paths,
 * then what is near corners and the manual policies, of these what could be better; evenly spaced
 * ones of each where there are many.
 */
#include "frontier.h"

#include "paths.h"

#include <stdlib.h>

enum {
    NODES_PRICED = 1000000, /* of each kind of candidates: large graphs take no longer */
    SAMPLES_MIN = 16,       /* of each kind */
    SHARE_MIN = 4,          /* of each of the paths that share a kind */
};

struct points {
    struct remat_frontier_point *items;
    size_t count, capacity;
};

struct priced { /* a decision */
    uint64_t hash;
    uint8_t *actions;
    struct remat_evaluation cost;
};

struct survey {
    struct remat_chooser *chooser;
    struct remat_planner *planner; /* NULL: solver ladder */
    struct remat_arena scratch;
    struct points points;
    struct {
        struct priced *items;
        size_t count, capacity;
    } evaluated;
    uint32_t path_count, candidates, priced;
};

/* Paths meet: some decisions are candidates more than once. */
static remat_status evaluate(struct survey *s, const struct remat_decision *decision,
                             struct remat_evaluation *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena *arena = s->chooser->arena;
    struct priced priced = {.hash = remat_hash(decision->actions, decision->value_count, 0)};
    for (size_t i = 0; i < s->evaluated.count; i++) {
        const struct priced *other = &s->evaluated.items[i];
        if (other->hash == priced.hash &&
            memcmp(other->actions, decision->actions, decision->value_count) == 0) {
            *out = other->cost;
            return REMAT_OK;
        }
    }
    REMAT_TRY(remat_evaluate(s->chooser->evaluator, decision, out));
    REMAT_NEW(arena, priced.actions, decision->value_count);
    memcpy(priced.actions, decision->actions, decision->value_count);
    priced.cost = *out;
    REMAT_PUSH(arena, &s->evaluated, priced);
fail:
    return st;
}

static remat_status price(struct survey *s, const char *name, const struct remat_decision *decision)
{
    remat_status st = REMAT_OK;
    struct remat_chooser *c = s->chooser;
    struct remat_evaluation cost;
    REMAT_TRY(evaluate(s, decision, &cost));
    if (cost.live_peak_bytes < c->fixed_live_bytes)
        cost.live_peak_bytes = c->fixed_live_bytes;
    REMAT_PUSH(c->arena, &s->points,
               ((struct remat_frontier_point){.policy = name,
                                              .live_peak_bytes = cost.live_peak_bytes,
                                              .step_ns = cost.step_ns}));
    s->priced++;
    if (!c->state.best_ns || cost.step_ns < c->state.best_ns)
        c->state.best_ns = cost.step_ns;
    if (!c->state.least_bytes || cost.live_peak_bytes < c->state.least_bytes)
        c->state.least_bytes = cost.live_peak_bytes;
fail:
    return st;
}

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
static void sort_points(struct points *points)
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

/* A point is at most as large and at most as slow. */
static bool is_covered(const struct points *points, uint64_t bytes, uint64_t ns)
{
    for (size_t i = 0; i < points->count; i++)
        if (points->items[i].live_peak_bytes <= bytes && points->items[i].step_ns <= ns)
            return true;
    return false;
}

/* --- candidates --- */

/* How many of `count` are priced, of a kind that has `all`; sample i is then number sample_index(i,
 * samples, count). */
static uint32_t share_count(const struct survey *s, uint32_t count, uint32_t all)
{
    uint32_t samples = NODES_PRICED / (s->chooser->graph->node_count + 1);
    samples = samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
    if (samples >= all)
        return count;
    samples = (uint32_t)((uint64_t)samples * count / all);
    samples = samples < SHARE_MIN ? SHARE_MIN : samples;
    return samples > count ? count : samples;
}

static uint32_t sample_count(const struct survey *s, uint32_t count)
{
    return share_count(s, count, count);
}

/* Each path of single layers is a kind; all those of groups are one. */
static uint32_t plain_count(const struct survey *s, uint32_t path)
{
    uint32_t length = remat_planner_path_length(s->planner, path), all = 0;
    uint32_t singles = remat_planner_single_count(s->planner);
    for (uint32_t p = singles; path >= singles && p < s->path_count; p++)
        all += remat_planner_path_length(s->planner, p);
    return share_count(s, length, path < singles ? length : all);
}

/* What is nested is one kind. */
static uint32_t nested_count(const struct survey *s, uint32_t path)
{
    uint32_t all = 0;
    for (uint32_t p = 0; p < s->path_count; p++)
        all += remat_planner_nested_count(s->planner, p);
    return share_count(s, remat_planner_nested_count(s->planner, path), all);
}

/* The first and the last are among the samples. */
static uint32_t sample_index(uint32_t i, uint32_t samples, uint32_t count)
{
    return samples > 1 ? (uint32_t)((uint64_t)i * (count - 1) / (samples - 1)) : 0;
}

/* However little time there is, one is priced. */
static bool goes_on(const struct survey *s)
{
    return !remat_choose_is_over(s->chooser) || s->priced == 0;
}

static remat_status survey_decision(struct survey *s, uint32_t path, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct remat_decision decision;
    REMAT_TRY(remat_planner_decide(s->planner, &s->scratch, path, index, &decision));
    REMAT_TRY(price(s, "per-op", &decision));
    s->chooser->state.seen_count++;
    remat_arena_reset(&s->scratch);
fail:
    return st;
}

static remat_status survey_plain(struct survey *s, uint32_t path, uint32_t most)
{
    remat_status st = REMAT_OK;
    uint32_t count, *samples;
    REMAT_TRY(
        remat_planner_path_samples(s->planner, s->chooser->arena, path, most, &count, &samples));
    s->chooser->state.to_see_count -= most - count;
    for (uint32_t i = 0; i < count && goes_on(s); i++)
        REMAT_TRY(survey_decision(s, path, samples[i]));
fail:
    return st;
}

/* Those behind the last decision of the path. */
static remat_status survey_nested(struct survey *s, uint32_t path, uint32_t samples)
{
    remat_status st = REMAT_OK;
    uint32_t length = remat_planner_path_length(s->planner, path);
    uint32_t count = remat_planner_nested_count(s->planner, path);
    for (uint32_t i = 0; i < samples && goes_on(s); i++)
        REMAT_TRY(survey_decision(s, path, length + sample_index(i, samples, count)));
fail:
    return st;
}

/* Whether the decision could be better than everything priced. */
static remat_status could_be_better(struct survey *s, const struct remat_decision *decision,
                                    bool *out)
{
    remat_status st = REMAT_OK;
    struct remat_least least;
    REMAT_TRY(remat_planner_least(s->planner, &s->scratch, decision, &least));
    *out = !is_covered(&s->points, least.live_bytes, least.step_ns);
fail:
    return st;
}

static remat_status survey_near(struct survey *s)
{
    remat_status st = REMAT_OK;
    uint32_t count = remat_planner_near_count(s->planner), samples = sample_count(s, count);
    for (uint32_t i = 0; i < samples && goes_on(s); i++) {
        struct remat_decision decision;
        bool better;
        REMAT_TRY(remat_planner_near(s->planner, &s->scratch, sample_index(i, samples, count),
                                     &decision));
        REMAT_TRY(could_be_better(s, &decision, &better));
        if (better)
            REMAT_TRY(price(s, "per-op", &decision));
        s->chooser->state.seen_count++;
        remat_arena_reset(&s->scratch);
    }
fail:
    return st;
}

/* Moves the policies to the front that could be better than what the paths offer. */
static remat_status find_better(struct survey *s, struct remat_policy *policies, uint32_t *count)
{
    remat_status st = REMAT_OK;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        struct remat_decision decision;
        struct remat_notes ignored = {0};
        bool better;
        REMAT_TRY(remat_policy_decide(s->chooser->ground, &s->scratch, &policies[i], &decision,
                                      &ignored));
        REMAT_TRY(could_be_better(s, &decision, &better));
        if (better)
            policies[kept++] = policies[i];
        remat_arena_reset(&s->scratch);
    }
    *count = kept;
fail:
    return st;
}

/* What does not come to be priced has been seen, too. */
static remat_status survey_ladder(struct survey *s, struct remat_policy *policies, uint32_t count)
{
    remat_status st = REMAT_OK;
    struct remat_chooser *c = s->chooser;
    uint32_t samples = sample_count(s, count);
    if (s->planner)
        REMAT_TRY(find_better(s, policies, &count));
    c->state.seen_count += samples - sample_count(s, count);
    samples = sample_count(s, count);
    for (uint32_t i = 0; i < samples && goes_on(s); i++) {
        const struct remat_policy *policy = &policies[sample_index(i, samples, count)];
        struct remat_decision decision;
        struct remat_notes ignored = {0};
        REMAT_TRY(remat_policy_decide(c->ground, &s->scratch, policy, &decision, &ignored));
        REMAT_TRY(price(s, policy->name, &decision));
        c->state.seen_count++;
        remat_arena_reset(&s->scratch);
    }
fail:
    return st;
}

/* Adds candidates of which samples are to be seen. */
static void announce(struct survey *s, uint32_t count, uint32_t samples)
{
    s->candidates += count;
    s->chooser->state.to_see_count += samples;
}

static remat_status survey(struct survey *s)
{
    remat_status st = REMAT_OK;
    struct remat_chooser *c = s->chooser;
    struct remat_policy *policies;
    uint32_t count, near_count;
    REMAT_TRY(remat_policy_prepare(c->ctx, c->arena, c->graph, &c->settings->policy, &c->ground));
    REMAT_TRY(remat_policy_ladder(c->ctx, c->arena, c->graph, &count, &policies));
    if (c->settings->solver == REMAT_SOLVER_PER_OP) {
        REMAT_TRY(remat_choose_planner(c, &s->planner));
        REMAT_TRY(remat_choose_path_count(c, &s->scratch, s->planner, &s->path_count));
        near_count = remat_planner_near_count(s->planner);
        announce(s, near_count, sample_count(s, near_count));
    }
    for (uint32_t path = 0; path < s->path_count; path++) {
        announce(s, remat_planner_path_length(s->planner, path), plain_count(s, path));
        announce(s, remat_planner_nested_count(s->planner, path), nested_count(s, path));
    }
    announce(s, count, sample_count(s, count));
    for (uint32_t path = 0; path < s->path_count; path++) {
        REMAT_TRY(survey_plain(s, path, plain_count(s, path)));
        REMAT_TRY(survey_nested(s, path, nested_count(s, path)));
    }
    sort_points(&s->points);
    if (s->planner)
        REMAT_TRY(survey_near(s));
    sort_points(&s->points);
    REMAT_TRY(survey_ladder(s, policies, count));
fail:
    return st;
}

remat_status remat_choose_frontier(struct remat_chooser *c, const struct remat_frontier_point *plan,
                                   struct remat_frontier *out)
{
    remat_status st = REMAT_OK;
    struct survey s = {.chooser = c};
    remat_arena_init(&s.scratch, c->ctx);
    REMAT_TRY(survey(&s));
    if (plan)
        REMAT_PUSH(c->arena, &s.points, *plan);
    sort_points(&s.points);
    *out = (struct remat_frontier){.points = s.points.items,
                                   .count = (uint32_t)s.points.count,
                                   .candidate_count = s.candidates,
                                   .seen_count = c->state.seen_count,
                                   .evaluated_count = s.priced,
                                   .cut_short = c->over,
                                   .bounded = s.planner != NULL};
    if (s.planner)
        out->floor_bytes = remat_planner_floor(s.planner);
    for (uint32_t i = 0; i < out->count && out->bounded; i++)
        REMAT_TRY(remat_planner_bound(s.planner, out->points[i].live_peak_bytes,
                                      &out->points[i].bound_ns));
    REMAT_TRY(remat_choose_base(c, &out->base_ns));
fail:
    remat_arena_release(&s.scratch);
    return st;
}
