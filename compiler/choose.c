/* Manual policies, and decisions near the corners of the planner's hulls, are compared in order of
 * the least they can cost, and only until the next one cannot be faster than one that fits. A path
 * is searched by bisection, which finds the same or an earlier decision when there is more room,
 * since whatever fits less room fits more. */
#include "choose.h"

#include <inttypes.h>
#include <stdlib.h>

#include "prepare.h"
#include "rewrite.h"
#include "sensitivity.h"

struct proposal {
    const char *name;
    const struct remat_policy *policy; /* NULL: the planner's */
    uint32_t path, step;               /* path REMAT_NONE: step is the number of one near */
};

/* What is kept of a proposal while they are compared. */
struct rung {
    struct proposal of;
    uint64_t least_ns, least_bytes; /* bounds of what follows */
    struct remat_evaluation cost;
    uint32_t index;
};

struct rungs {
    struct rung *items;
    size_t count, capacity;
};

/* --- the end of a search --- */

static uint64_t step_of(const struct remat_chooser *c, uint64_t ns)
{
    return ns ? ns * remat_microbatches(c->settings) + c->update->step_ns : 0;
}

bool remat_choose_is_over(struct remat_chooser *c)
{
    const struct remat_compile_settings *s = c->settings;
    if (!c->over && s->is_over)
        c->over = s->is_over(s->is_over_user, step_of(c, c->best_ns), step_of(c, c->bound_ns));
    return c->over;
}

remat_status remat_choose_nothing(struct remat_chooser *c)
{
    return remat_error(c->ctx, REMAT_ERROR_INFEASIBLE,
                       "the search was ended before it found a plan that fits");
}

static remat_status note_end(struct remat_chooser *c)
{
    remat_status st = REMAT_OK;
    if (c->over)
        REMAT_PUSH(c->arena, &c->notes,
                   "the search was cut short: what was found by then depends on the machine");
fail:
    return st;
}

/* --- from a proposal to its costs, and to a candidate --- */

static remat_status decide(struct remat_chooser *c, struct remat_arena *arena,
                           const struct remat_planner *planner, const struct proposal *proposal,
                           struct remat_notes *notes, struct remat_decision *out)
{
    remat_stopwatch_start(c->watch);
    remat_status st =
        proposal->policy ? remat_policy_decide(c->ground, arena, proposal->policy, out, notes)
        : proposal->path == REMAT_NONE
            ? remat_planner_near(planner, arena, proposal->step, out)
            : remat_planner_decide(planner, arena, proposal->path, proposal->step, out);
    remat_stopwatch_lap(c->watch, REMAT_LAP_DECIDE);
    return st;
}

/* Packed where the live peak is at most limit_bytes. */
static remat_status evaluate(struct remat_chooser *c, struct remat_arena *scratch,
                             const struct remat_planner *planner, struct rung *rung,
                             uint64_t limit_bytes)
{
    remat_status st = REMAT_OK;
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    REMAT_TRY(decide(c, scratch, planner, &rung->of, &ignored, &decision));
    REMAT_TRY(remat_evaluate_packed(c->evaluator, &decision, limit_bytes, c->settings->guard_bytes,
                                    &rung->cost));
    if (rung->cost.arena_bytes < c->fixed_arena_bytes)
        rung->cost.arena_bytes = c->fixed_arena_bytes;
fail:
    remat_arena_reset(scratch);
    return st;
}

/* decide, clone, arrange, place. What comes out is what was evaluated. */
static remat_status carry(struct remat_chooser *c, struct remat_arena *arena,
                          const struct remat_planner *planner, const struct rung *rung,
                          struct remat_notes *notes, struct remat_candidate *out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph;
    *out = (struct remat_candidate){.name = rung->of.name};
    REMAT_TRY(decide(c, arena, planner, &rung->of, notes, &out->decision));
    remat_stopwatch_start(c->watch);
    REMAT_TRY(remat_rewrite_with(c->ctx, arena, &c->evaluator->clones, &out->decision, &graph));
    remat_stopwatch_lap(c->watch, REMAT_LAP_CLONE);
    REMAT_TRY(remat_arrange(c->ctx, arena, graph, c->statics, &c->settings->device, c->watch,
                            &out->arranged));
    remat_stopwatch_start(c->watch);
    REMAT_TRY(remat_place(c->ctx, arena, c->statics, &out->arranged.lifespans,
                          c->settings->guard_bytes, &out->arena_bytes));
    remat_stopwatch_lap(c->watch, REMAT_LAP_PLACE);
    if (out->arena_bytes < c->fixed_arena_bytes)
        out->arena_bytes = c->fixed_arena_bytes;
    if (out->arranged.step_ns != rung->cost.step_ns || out->arena_bytes != rung->cost.arena_bytes)
        REMAT_FAIL(c->ctx, REMAT_ERROR_INTERNAL,
                   "policy \"%s\": evaluated to %" PRIu64 " ns and an arena of %" PRIu64
                   " B, carried through to %" PRIu64 " ns and %" PRIu64 " B",
                   rung->of.name, rung->cost.step_ns, rung->cost.arena_bytes, out->arranged.step_ns,
                   out->arena_bytes);
fail:
    return st;
}

/* Evaluates; *bytes is the packed arena, UINT64_MAX where the live peak alone is over the limit. */
static remat_status try_rung(struct remat_chooser *c, struct remat_arena *scratch,
                             const struct remat_planner *planner, struct rung *rung,
                             uint64_t limit_bytes, uint64_t *bytes)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(evaluate(c, scratch, planner, rung, limit_bytes));
    *bytes = rung->cost.arena_bytes;
    if (*bytes <= c->limit_bytes && (!c->best_ns || rung->cost.step_ns < c->best_ns))
        c->best_ns = rung->cost.step_ns;
fail:
    return st;
}

/* --- proposals by what they cost at least: manual policies, and what is near corners --- */

static int compare_least(const void *a, const void *b)
{
    const struct rung *x = a, *y = b;
    if (x->least_ns != y->least_ns)
        return x->least_ns < y->least_ns ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_cost(const void *a, const void *b)
{
    const struct rung *x = a, *y = b;
    if (x->cost.step_ns != y->cost.step_ns)
        return x->cost.step_ns < y->cost.step_ns ? -1 : 1;
    if (x->cost.live_peak_bytes != y->cost.live_peak_bytes)
        return x->cost.live_peak_bytes < y->cost.live_peak_bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The policies to choose from: the one that was given, or the ladder when there is only a budget.
 */
static remat_status list_policies(struct remat_chooser *c, struct rungs *out)
{
    remat_status st = REMAT_OK;
    const struct remat_policy_settings *given = &c->settings->policy;
    struct remat_policy *policies;
    uint32_t count = 1;
    if (c->settings->has_budget && !remat_policy_given(given)) {
        REMAT_TRY(remat_policy_ladder(c->ctx, c->arena, c->graph, &count, &policies));
    } else {
        REMAT_NEW(c->arena, policies, 1);
        REMAT_TRY(remat_policy_resolve(c->ctx, c->arena, c->graph, given, policies));
    }
    for (uint32_t i = 0; i < count; i++)
        REMAT_PUSH(
            c->arena, out,
            ((struct rung){.of = {.name = policies[i].name, .policy = &policies[i]}, .index = i}));
fail:
    return st;
}

/* Bounds of what the rung's decision costs. */
static remat_status find_least(struct remat_chooser *c, struct remat_arena *scratch,
                               const struct remat_planner *planner, struct rung *rung)
{
    remat_status st = REMAT_OK;
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    REMAT_TRY(decide(c, scratch, planner, &rung->of, &ignored, &decision));
    REMAT_TRY(
        remat_planner_least(planner, scratch, &decision, &rung->least_ns, &rung->least_bytes));
fail:
    remat_arena_reset(scratch);
    return st;
}

static remat_status bound_rungs(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, struct rungs *rungs)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < rungs->count; i++)
        REMAT_TRY(find_least(c, scratch, planner, &rungs->items[i]));
    qsort(rungs->items, rungs->count, sizeof *rungs->items, compare_least);
fail:
    return st;
}

/* The fastest rung whose packed arena fits; *best stays as it is where none does or, if *found,
 * none of them is better. */
static remat_status best_rung(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct rungs *rungs,
                              struct rung *best, bool *found)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < rungs->count; i++) {
        struct rung *rung = &rungs->items[i];
        uint64_t bytes;
        if ((*found && rung->least_ns >= best->cost.step_ns) || remat_choose_is_over(c))
            break;
        if (rung->least_bytes > c->limit_bytes)
            continue;
        REMAT_TRY(try_rung(c, scratch, planner, rung, c->limit_bytes, &bytes));
        if (bytes <= c->limit_bytes && (!*found || compare_cost(rung, best) < 0)) {
            *best = *rung;
            *found = true;
        }
    }
fail:
    return st;
}

/* --- the planner --- */

remat_status remat_choose_planner(struct remat_chooser *c, struct remat_planner **out)
{
    remat_status st = REMAT_OK;
    static const struct remat_policy none = {.name = "none", .granularity = REMAT_POLICY_NONE};
    struct remat_decision *pinned;
    struct remat_arrangement *plain;
    struct remat_notes ignored = {0};
    REMAT_NEW(c->arena, pinned, 1);
    REMAT_NEW(c->arena, plain, 1);
    REMAT_TRY(remat_policy_decide(c->ground, c->arena, &none, pinned, &ignored));
    REMAT_TRY(remat_arrange(c->ctx, c->arena, c->graph, c->statics, &c->settings->device, c->watch,
                            plain));
    remat_stopwatch_start(c->watch);
    REMAT_TRY(remat_planner_create(c->ctx, c->arena, c->graph, &plain->kernels, plain->prices,
                                   &c->settings->device, pinned, c->statics->total_bytes, out));
    remat_stopwatch_lap(c->watch, REMAT_LAP_PLAN);
fail:
    return st;
}

/* The first decision of the path that fits, as bisection finds it. Any limit from *room_bytes on up
 * to this one has the same outcome. */
static remat_status search_path(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, uint32_t path,
                                uint64_t limit_bytes, struct rung *best, bool *found,
                                uint64_t *room_bytes)
{
    remat_status st = REMAT_OK;
    uint32_t low = 0, high = remat_planner_path_length(planner, path);
    struct rung first = {0};
    bool any = false;
    *room_bytes = 0;
    while (low < high && !remat_choose_is_over(c)) {
        uint32_t middle = low + (high - low) / 2;
        struct rung rung = {.of = {"per-op", NULL, path, middle}};
        uint64_t bytes;
        REMAT_TRY(try_rung(c, scratch, planner, &rung, limit_bytes, &bytes));
        if (bytes <= limit_bytes) {
            first = rung;
            any = true;
            high = middle;
            *room_bytes = bytes > *room_bytes ? bytes : *room_bytes;
        } else {
            low = middle + 1;
        }
    }
    if (any)
        *best = first;
    *found |= any;
    if (!any)
        *room_bytes = UINT64_MAX;
fail:
    return st;
}

/* Costs are not exactly those that order the path: a corner behind *best may be faster, and where
 * groups of layers form, what lies before the next one. */
static remat_status try_corners(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, struct rung *best)
{
    remat_status st = REMAT_OK;
    uint32_t path = best->of.path, length = remat_planner_path_length(planner, path);
    uint32_t corner = remat_planner_path_corner(planner, path, best->of.step + 1);
    bool groups = path >= remat_planner_single_count(planner);
    for (uint32_t next = best->of.step + 1; next < length && !remat_choose_is_over(c); next++) {
        if (!groups || next > corner)
            next = remat_planner_path_corner(planner, path, next);
        struct rung rung = {.of = {"per-op", NULL, path, next}};
        REMAT_TRY(find_least(c, scratch, planner, &rung));
        if (rung.least_ns >= best->cost.step_ns)
            continue;
        REMAT_TRY(evaluate(c, scratch, planner, &rung, c->limit_bytes));
        if (compare_cost(&rung, best) < 0 && rung.cost.arena_bytes <= c->limit_bytes)
            *best = rung;
    }
fail:
    return st;
}

/* The group that is computed again at once grows with its layers, what is saved between groups gets
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
        struct rung rung = {.of = {"per-op", NULL, path++, last}};
        REMAT_TRY(evaluate(c, scratch, planner, &rung, 0));
        smaller = rung.cost.live_peak_bytes < least_bytes;
        least_bytes = rung.cost.live_peak_bytes;
    }
    if (c->path_count == 0)
        c->path_count = path;
    *out = c->path_count;
fail:
    return st;
}

/* Whether groups of layers could be faster than *best. */
static remat_status try_groups(struct remat_chooser *c, struct remat_arena *scratch,
                               const struct remat_planner *planner, const struct rung *best,
                               bool found, uint32_t *path_count)
{
    remat_status st = REMAT_OK;
    struct rung first = {.of = {"per-op", NULL, *path_count, 0}};
    if (*path_count == remat_planner_path_count(planner))
        return REMAT_OK;
    if (found)
        REMAT_TRY(find_least(c, scratch, planner, &first));
    if (!found || first.least_ns < best->cost.step_ns)
        REMAT_TRY(remat_choose_path_count(c, scratch, planner, path_count));
fail:
    return st;
}

/* The fastest that the planner's paths lead to. Larger groups than the first that are no faster
 * hold more at once for the same time. */
static remat_status best_plan(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct rung *best, bool *found)
{
    remat_status st = REMAT_OK;
    const uint32_t singles = remat_planner_single_count(planner);
    uint32_t count = singles;
    *found = false;
    for (uint32_t path = 0; path < count; path++) {
        struct rung rung;
        uint64_t room;
        bool any = false;
        REMAT_TRY(search_path(c, scratch, planner, path, c->limit_bytes, &rung, &any, &room));
        if (any)
            REMAT_TRY(try_corners(c, scratch, planner, &rung));
        bool faster = any && (!*found || compare_cost(&rung, best) < 0);
        if (faster)
            *best = rung;
        if (*found && !faster && path >= singles)
            break;
        *found |= any;
        if (path + 1 == singles)
            REMAT_TRY(try_groups(c, scratch, planner, best, *found, &count));
    }
fail:
    return st;
}

/* All that are near corners, by what they cost at least. */
static remat_status list_near(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct rungs *out)
{
    remat_status st = REMAT_OK;
    uint32_t count = remat_planner_near_count(planner);
    for (uint32_t i = 0; i < count; i++)
        REMAT_PUSH(c->arena, out,
                   ((struct rung){.of = {"per-op", NULL, REMAT_NONE, i}, .index = i}));
    REMAT_TRY(bound_rungs(c, scratch, planner, out));
fail:
    return st;
}

/* --- choosing --- */

/* Of a whole step, by class. */
static struct remat_class_times times_of(const struct remat_chooser *c, const struct rung *rung)
{
    struct remat_class_times times = c->update->times;
    for (uint32_t k = 0; k < REMAT_COST_CLASSES; k++)
        times.ns[k] += rung->cost.times.ns[k] * remat_microbatches(c->settings);
    return times;
}

/* Whether costs that are off could put the rung in front of *best. */
static bool could_win(const struct rung *rung, const struct rung *best)
{
    return (1 - REMAT_SENSITIVITY_SHARE) * (double)rung->least_ns <
           (1 + REMAT_SENSITIVITY_SHARE) * (double)best->cost.step_ns;
}

/* The plan against all manual policies that fit, the fastest of which is `manual`. */
static remat_status note_manual(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, struct rungs *rungs,
                                const struct rung *chosen, const struct rung *manual)
{
    remat_status st = REMAT_OK;
    struct remat_class_times *times;
    uint32_t count = 1;
    double slower =
        (double)step_of(c, manual->cost.step_ns) / (double)step_of(c, chosen->cost.step_ns) - 1;
    REMAT_NEW(c->arena, times, rungs->count + 1);
    times[0] = times_of(c, chosen);
    for (size_t i = 0; i < rungs->count; i++) {
        struct rung *rung = &rungs->items[i];
        uint64_t bytes;
        if (rung->least_bytes > c->limit_bytes || !could_win(rung, chosen))
            continue;
        if (remat_choose_is_over(c))
            return REMAT_OK;
        REMAT_TRY(try_rung(c, scratch, planner, rung, c->limit_bytes, &bytes));
        if (bytes <= c->limit_bytes)
            times[count++] = times_of(c, rung);
    }
    struct remat_sensitivity s = remat_sensitivity_of(times, count, 0);
    const char *rival = "the plan is a manual policy";
    if (!chosen->of.policy)
        rival = remat_arena_format(c->arena,
                                   "the fastest manual policy that fits is \"%s\", %.2f %% slower",
                                   manual->of.name, 100 * slower);
    if (!rival)
        return REMAT_ERROR_MEMORY;
    const char *note = remat_arena_format(c->arena,
                                          "%s; with costs of matmul, attention or the rest 20 %% "
                                          "off no %sthat fits is faster in %u of "
                                          "%u cases",
                                          rival, chosen->of.policy ? "other " : "manual policy ",
                                          s.held, REMAT_SENSITIVITY_CASES);
    REMAT_PUSH(c->arena, &c->notes, note);
fail:
    return st;
}

/* Takes the rung when its packed arena, which is no smaller than its live peak, is smaller. */
static remat_status take_smaller(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner, struct rung *rung,
                                 struct rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    REMAT_TRY(try_rung(c, scratch, planner, rung, *arena_bytes, &bytes));
    if (bytes < *arena_bytes) {
        *smallest = *rung;
        *arena_bytes = bytes;
    }
fail:
    return st;
}

static remat_status take_smallest(struct remat_chooser *c, struct remat_arena *scratch,
                                  const struct remat_planner *planner, struct rungs *rungs,
                                  struct rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    for (size_t i = rungs->count; i-- > 0 && !remat_choose_is_over(c);)
        if (rungs->items[i].least_bytes < *arena_bytes)
            REMAT_TRY(take_smaller(c, scratch, planner, &rungs->items[i], smallest, arena_bytes));
fail:
    return st;
}

/* What is found with less and less room, until nothing is: the ends of paths need not be smallest.
 */
static remat_status shrink(struct remat_chooser *c, struct remat_arena *scratch,
                           const struct remat_planner *planner, uint32_t path,
                           struct rung *smallest, uint64_t *arena_bytes)
{
    remat_status st = REMAT_OK;
    bool found = true;
    while (found && !remat_choose_is_over(c)) {
        uint64_t room;
        found = false;
        REMAT_TRY(
            search_path(c, scratch, planner, path, *arena_bytes - 1, smallest, &found, &room));
        *arena_bytes = room < *arena_bytes ? room : *arena_bytes;
    }
fail:
    return st;
}

/* Nothing fits: the message is about the smallest arena with which something is found. */
static remat_status refuse(struct remat_chooser *c, struct remat_arena *scratch,
                           struct remat_planner *planner, struct rungs *rungs, struct rungs *near)
{
    remat_status st = REMAT_OK;
    struct rung smallest = {0};
    struct remat_candidate candidate;
    struct remat_notes ignored = {0};
    uint64_t bytes = UINT64_MAX;
    uint32_t path_count = 0;
    if (planner)
        REMAT_TRY(remat_choose_path_count(c, scratch, planner, &path_count));
    for (uint32_t path = 0; path < path_count; path++) {
        uint32_t last = remat_planner_path_length(planner, path) - 1;
        struct rung rung = {.of = {"per-op", NULL, path, last}};
        REMAT_TRY(take_smaller(c, scratch, planner, &rung, &smallest, &bytes));
    }
    REMAT_TRY(take_smallest(c, scratch, planner, rungs, &smallest, &bytes));
    if (near)
        REMAT_TRY(take_smallest(c, scratch, planner, near, &smallest, &bytes));
    for (uint32_t path = 0; path < path_count; path++)
        REMAT_TRY(shrink(c, scratch, planner, path, &smallest, &bytes));
    if (remat_choose_is_over(c))
        return remat_choose_nothing(c);
    REMAT_TRY(carry(c, c->arena, planner, &smallest, &ignored, &candidate));
    st = remat_infeasible(c, &candidate, bytes, planner ? remat_planner_floor(planner) : 0);
fail:
    return st;
}

/* The given policy, or with a planner for its bounds the fastest that fits. */
static remat_status choose_policy(struct remat_chooser *c, struct remat_arena *scratch,
                                  struct remat_planner *planner, struct rungs *rungs,
                                  struct rung *best)
{
    remat_status st = REMAT_OK;
    bool found = false;
    if (planner) {
        REMAT_TRY(bound_rungs(c, scratch, planner, rungs));
        REMAT_TRY(best_rung(c, scratch, planner, rungs, best, &found));
        if (found && !c->over)
            REMAT_TRY(note_manual(c, scratch, planner, rungs, best, best));
    } else {
        uint64_t bytes;
        *best = rungs->items[0];
        REMAT_TRY(try_rung(c, scratch, NULL, best, c->limit_bytes, &bytes));
        found = bytes <= c->limit_bytes;
    }
    return found ? REMAT_OK : refuse(c, scratch, NULL, rungs, NULL);
fail:
    return st;
}

static remat_status choose_per_op(struct remat_chooser *c, struct remat_arena *scratch,
                                  struct remat_planner *planner, struct rungs *rungs,
                                  struct rung *best, struct rung *manual)
{
    remat_status st = REMAT_OK;
    struct rungs near = {0};
    bool found = false, by_hand = false;
    REMAT_TRY(bound_rungs(c, scratch, planner, rungs));
    REMAT_TRY(best_rung(c, scratch, planner, rungs, manual, &by_hand));
    REMAT_TRY(best_plan(c, scratch, planner, best, &found));
    REMAT_TRY(list_near(c, scratch, planner, &near));
    REMAT_TRY(best_rung(c, scratch, planner, &near, best, &found));
    if (!found && !by_hand)
        return refuse(c, scratch, planner, rungs, &near);
    if (!found || (by_hand && compare_cost(manual, best) < 0))
        *best = *manual;
    else if (c->over || !by_hand)
        manual->of.policy = NULL;
    if (by_hand && !c->over)
        REMAT_TRY(note_manual(c, scratch, planner, rungs, best, manual));
fail:
    return st;
}

remat_status remat_choose(struct remat_chooser *c, struct remat_candidate *out)
{
    remat_status st = REMAT_OK;
    struct remat_planner *planner = NULL;
    struct remat_arena scratch;
    struct rungs rungs = {0};
    struct rung best, manual = {0};
    bool free = c->settings->has_budget && !remat_policy_given(&c->settings->policy);
    remat_arena_init(&scratch, c->ctx);
    REMAT_TRY(list_policies(c, &rungs));
    REMAT_TRY(remat_policy_prepare(c->ctx, c->arena, c->graph, &c->settings->policy, &c->ground));
    bool per_op = free && c->settings->solver == REMAT_SOLVER_PER_OP;
    if (c->settings->has_budget) {
        REMAT_TRY(remat_choose_planner(c, &planner));
        if (c->limit_bytes >= remat_planner_floor(planner))
            REMAT_TRY(remat_planner_bound(planner, c->limit_bytes, &c->bound_ns));
    }
    if (per_op) {
        REMAT_TRY(choose_per_op(c, &scratch, planner, &rungs, &best, &manual));
    } else {
        REMAT_TRY(choose_policy(c, &scratch, free ? planner : NULL, &rungs, &best));
        manual = best;
    }
    REMAT_TRY(note_end(c));
    REMAT_TRY(carry(c, c->arena, planner, &best, &c->notes, out));
    out->manual = manual.of.policy;
    out->manual_ns = manual.cost.step_ns;
    out->bound_ns = c->bound_ns;
    out->floor_bytes = per_op ? remat_planner_floor(planner) : 0;
fail:
    remat_arena_release(&scratch);
    return st;
}

remat_status remat_choose_base(struct remat_chooser *c, uint64_t *out_ns)
{
    remat_status st = REMAT_OK;
    static const struct remat_policy none = {.name = "none", .granularity = REMAT_POLICY_NONE};
    static const struct remat_policy_settings no_pins = {0};
    struct remat_arena scratch;
    struct remat_policy_ground *ground;
    struct remat_decision decision;
    struct remat_evaluation cost;
    struct remat_notes ignored = {0};
    remat_arena_init(&scratch, c->ctx);
    REMAT_TRY(remat_policy_prepare(c->ctx, &scratch, c->graph, &no_pins, &ground));
    REMAT_TRY(remat_policy_decide(ground, &scratch, &none, &decision, &ignored));
    REMAT_TRY(remat_evaluate(c->evaluator, &decision, &cost));
    *out_ns = cost.step_ns;
fail:
    remat_arena_release(&scratch);
    return st;
}
