/* SPDX-License-Identifier: Apache-2.0 */
/* Manual policies, decisions near the corners of the planner's hulls, and samples of its paths are
 * compared in order of the least they can cost, and only until the next one cannot be faster than
 * one that fits. */
#include "choose.h"

#include <inttypes.h>

#include "paths.h"
#include "prepare.h"
#include "samples.h"
#include "sensitivity.h"

static remat_status note_end(struct remat_chooser *c)
{
    remat_status st = REMAT_OK;
    if (c->over)
        REMAT_PUSH(c->arena, &c->notes,
                   "the search was cut short: what was found by then depends on the machine");
fail:
    return st;
}

/* The policies to choose from: the one that was given, or all manual ones when there is only a
 * budget. */
static remat_status list_policies(struct remat_chooser *c, struct remat_rungs *out)
{
    remat_status st = REMAT_OK;
    const struct remat_policy_settings *given = &c->settings->policy;
    struct remat_policy *policies;
    uint32_t count = 1;
    if (c->settings->has_budget && !remat_policy_given(given)) {
        REMAT_TRY(remat_manual_policies(c->ctx, c->arena, c->graph, &count, &policies));
    } else {
        REMAT_NEW(c->arena, policies, 1);
        REMAT_TRY(remat_policy_resolve(c->ctx, c->arena, c->graph, given, policies));
    }
    for (uint32_t i = 0; i < count; i++)
        REMAT_PUSH(c->arena, out,
                   ((struct remat_rung){.of = {.name = policies[i].name, .policy = &policies[i]},
                                        .index = i}));
fail:
    return st;
}

remat_status remat_choose_planner(struct remat_chooser *c, struct remat_planner **out)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel_list *kernels = c->evaluator->settled->kernels;
    struct remat_price *prices;
    struct remat_arena scratch;
    remat_arena_init(&scratch, c->ctx);
    remat_stopwatch_start(c->watch);
    REMAT_NEW(c->arena, prices, kernels->count);
    for (uint32_t k = 0; k < kernels->count; k++)
        prices[k] = remat_price_kernel(c->graph, &kernels->kernels[k], &c->settings->device);
    REMAT_TRY(remat_price_check_list(c->ctx, c->graph, kernels, prices, &c->settings->device));
    REMAT_TRY(remat_planner_create(c->ctx, c->arena, c->evaluator, prices, c->pinned, out));
    remat_stopwatch_lap(c->watch, REMAT_LAP_PLAN);
    REMAT_TRY(remat_planner_price_corners(*out, &scratch));
fail:
    remat_arena_release(&scratch);
    return st;
}

/* All that are near corners and samples of the paths, by what they cost at least. best: NULL where
 * nothing has been found. */
static remat_status list_near(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, const struct remat_rung *best,
                              struct remat_rungs *out)
{
    remat_status st = REMAT_OK;
    uint32_t count = remat_planner_near_count(planner);
    for (uint32_t i = 0; i < count; i++)
        REMAT_PUSH(c->arena, out,
                   ((struct remat_rung){.of = {"per-op", NULL, REMAT_NONE, i}, .index = i}));
    REMAT_TRY(remat_samples_list(c, scratch, planner, best, out));
    REMAT_TRY(remat_rungs_bound(c, scratch, planner, out));
fail:
    return st;
}

/* Of a whole step, by class. */
static struct remat_class_times times_of(const struct remat_chooser *c,
                                         struct remat_class_times decided)
{
    struct remat_class_times times = c->update->times;
    for (uint32_t k = 0; k < REMAT_COST_CLASSES; k++)
        times.ns[k] += decided.ns[k] * remat_microbatches(c->settings);
    return times;
}

/* The rung fits, and costs that are off could put it in front of what takes *chosen. */
static remat_status is_rival(struct remat_chooser *c, struct remat_arena *scratch,
                             const struct remat_planner *planner, struct remat_rung *rung,
                             const struct remat_class_times *chosen, bool *out)
{
    remat_status st = REMAT_OK;
    struct remat_class_times least;
    uint64_t ignored;
    *out = false;
    if (rung->least.live_bytes > c->limit_bytes)
        return REMAT_OK;
    if (!remat_rung_is_settled(c, rung)) {
        least = times_of(c, rung->cost.step_ns ? rung->cost.times : rung->least.times);
        if (!remat_sensitivity_may_lead(&least, chosen))
            return REMAT_OK;
        REMAT_TRY(remat_rung_try(c, scratch, planner, rung, c->limit_bytes, &ignored));
    }
    *out = rung->cost.arena_bytes <= c->limit_bytes;
fail:
    return st;
}

/* The plan against all manual policies that fit, the fastest of which is `manual`. */
static remat_status note_manual(struct remat_chooser *c, struct remat_arena *scratch,
                                const struct remat_planner *planner, struct remat_rungs *rungs,
                                const struct remat_rung *chosen, const struct remat_rung *manual)
{
    remat_status st = REMAT_OK;
    struct remat_class_times *times;
    uint32_t count = 1;
    double slower = (double)remat_choose_step_ns(c, manual->cost.step_ns) /
                        (double)remat_choose_step_ns(c, chosen->cost.step_ns) -
                    1;
    REMAT_NEW(c->arena, times, rungs->count + 1);
    times[0] = times_of(c, chosen->cost.times);
    for (size_t i = 0; i < rungs->count; i++) {
        struct remat_rung *rung = &rungs->items[i];
        bool rival;
        if (remat_choose_is_over(c))
            return REMAT_OK;
        REMAT_TRY(is_rival(c, scratch, planner, rung, &times[0], &rival));
        if (rival)
            times[count++] = times_of(c, rung->cost.times);
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

/* The given policy, or with a planner for its bounds the fastest that fits. */
static remat_status choose_policy(struct remat_chooser *c, struct remat_arena *scratch,
                                  struct remat_planner *planner, struct remat_rungs *rungs,
                                  struct remat_rung *best)
{
    remat_status st = REMAT_OK;
    bool found = false;
    if (planner) {
        REMAT_TRY(remat_rungs_bound(c, scratch, planner, rungs));
        REMAT_TRY(remat_rungs_best(c, scratch, planner, rungs, best, &found));
        if (!found && c->over)
            return remat_paths_rescue(c, scratch, planner, false, rungs, best);
        if (found && !c->over)
            REMAT_TRY(note_manual(c, scratch, planner, rungs, best, best));
    } else {
        uint64_t bytes;
        *best = rungs->items[0];
        REMAT_TRY(remat_rung_try(c, scratch, NULL, best, c->limit_bytes, &bytes));
        found = bytes <= c->limit_bytes;
    }
    return found ? REMAT_OK : remat_refuse(c, scratch, NULL, rungs, NULL);
fail:
    return st;
}

static remat_status choose_per_op(struct remat_chooser *c, struct remat_arena *scratch,
                                  struct remat_planner *planner, struct remat_rungs *rungs,
                                  struct remat_rung *best, struct remat_rung *manual)
{
    remat_status st = REMAT_OK;
    struct remat_rungs near = {0};
    bool found = false, by_hand = false;
    REMAT_TRY(remat_rungs_bound(c, scratch, planner, rungs));
    REMAT_TRY(remat_rungs_best(c, scratch, planner, rungs, manual, &by_hand));
    REMAT_TRY(remat_paths_best(c, scratch, planner, best, &found));
    REMAT_TRY(list_near(c, scratch, planner, found ? best : NULL, &near));
    REMAT_TRY(remat_rungs_best(c, scratch, planner, &near, best, &found));
    if (found)
        REMAT_TRY(remat_samples_refine(c, scratch, planner, &near, best));
    if (!found && !by_hand && !c->over)
        return remat_refuse(c, scratch, planner, rungs, &near);
    if (!found && !by_hand) {
        REMAT_TRY(remat_paths_rescue(c, scratch, planner, true, rungs, best));
        found = true;
    }
    if (!found || (by_hand && remat_rung_compare(manual, best) < 0))
        *best = *manual;
    else if (c->over || !by_hand)
        manual->of.policy = NULL;
    if (c->over && c->incumbent && remat_rung_compare(c->incumbent, best) < 0)
        *best = *c->incumbent; /* passed by in a bisection that was to end elsewhere */
    if (by_hand && !c->over)
        REMAT_TRY(note_manual(c, scratch, planner, rungs, best, manual));
fail:
    return st;
}

/* The fastest policy that fits and that Megatron has flags for; as it is where no other one does.
 */
static remat_status find_nearest(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner,
                                 const struct remat_rungs *rungs, struct remat_rung *manual)
{
    remat_status st = REMAT_OK;
    struct remat_rungs with_flags = {0};
    bool found = false;
    if (!manual->of.policy || c->over || remat_policy_megatron_flags(c->arena, manual->of.policy))
        return REMAT_OK;
    for (size_t i = 0; i < rungs->count; i++)
        if (remat_policy_megatron_flags(c->arena, rungs->items[i].of.policy))
            REMAT_PUSH(c->arena, &with_flags, rungs->items[i]);
    REMAT_TRY(remat_rungs_best(c, scratch, planner, &with_flags, manual, &found));
fail:
    return st;
}

remat_status remat_choose_check_bound(struct remat_chooser *c, uint64_t bound_ns, uint64_t step_ns)
{
    if (bound_ns <= step_ns)
        return REMAT_OK;
    return remat_error(c->ctx, REMAT_ERROR_INTERNAL,
                       "the bound of %" PRIu64 " ns is above the plan's own %" PRIu64 " ns",
                       bound_ns, step_ns);
}

remat_status remat_choose(struct remat_chooser *c, struct remat_candidate *out)
{
    remat_status st = REMAT_OK;
    struct remat_planner *planner = NULL;
    struct remat_arena scratch;
    struct remat_rungs rungs = {0};
    struct remat_rung best, manual = {0};
    bool free = c->settings->has_budget && !remat_policy_given(&c->settings->policy);
    remat_arena_init(&scratch, c->ctx);
    REMAT_TRY(list_policies(c, &rungs));
    bool per_op = free && c->settings->solver == REMAT_SOLVER_PER_OP;
    if (c->settings->has_budget) {
        REMAT_TRY(remat_choose_planner(c, &planner));
        if (c->limit_bytes >= remat_planner_floor(planner))
            REMAT_TRY(remat_planner_bound(planner, c->limit_bytes, &c->state.bound_ns));
    }
    if (per_op) {
        REMAT_TRY(choose_per_op(c, &scratch, planner, &rungs, &best, &manual));
    } else {
        REMAT_TRY(choose_policy(c, &scratch, free ? planner : NULL, &rungs, &best));
        manual = best;
    }
    if (free)
        REMAT_TRY(find_nearest(c, &scratch, planner, &rungs, &manual));
    REMAT_TRY(note_end(c));
    REMAT_TRY(remat_rung_carry(c, c->arena, planner, &best, &c->notes, out));
    out->manual = manual.of.policy;
    out->manual_ns = manual.cost.step_ns;
    out->bound_ns = c->state.bound_ns;
    out->floor_slack_ns = out->bound_ns ? remat_planner_floor_slack(planner) : 0;
    out->floor_bytes = per_op ? remat_planner_floor(planner) : 0;
    REMAT_TRY(remat_choose_check_bound(c, out->bound_ns, out->arranged.step_ns));
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
