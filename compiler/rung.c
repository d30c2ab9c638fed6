/* SPDX-License-Identifier: Apache-2.0 */
#include "rung.h"

#include <inttypes.h>
#include <stdlib.h>

#include "prepare.h"
#include "rewrite.h"

uint64_t remat_choose_step_ns(const struct remat_chooser *c, uint64_t ns)
{
    return ns ? ns * remat_microbatches(c->settings) + c->update->step_ns : 0;
}

bool remat_choose_is_over(struct remat_chooser *c)
{
    const struct remat_compile_settings *s = c->settings;
    struct remat_search_state state = c->state;
    state.best_ns = remat_choose_step_ns(c, state.best_ns);
    state.bound_ns = remat_choose_step_ns(c, state.bound_ns);
    if (!c->over && s->is_over)
        c->over = s->is_over(s->is_over_user, &state);
    return c->over;
}

/* --- from a proposal to its costs, and to a candidate --- */

static remat_status decide(struct remat_chooser *c, struct remat_arena *arena,
                           const struct remat_planner *planner,
                           const struct remat_proposal *proposal, struct remat_notes *notes,
                           struct remat_decision *out)
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

remat_status remat_rung_evaluate(struct remat_chooser *c, struct remat_arena *scratch,
                                 const struct remat_planner *planner, struct remat_rung *rung,
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

remat_status remat_rung_carry(struct remat_chooser *c, struct remat_arena *arena,
                              const struct remat_planner *planner, const struct remat_rung *rung,
                              struct remat_notes *notes, struct remat_candidate *out)
{
    remat_status st = REMAT_OK;
    struct remat_evaluator *evaluator;
    struct remat_graph *graph;
    *out = (struct remat_candidate){.name = rung->of.name};
    REMAT_TRY(decide(c, arena, planner, &rung->of, notes, &out->decision));
    remat_stopwatch_start(c->watch);
    REMAT_TRY(remat_evaluator_for(c->evaluator, &out->decision, &evaluator));
    REMAT_TRY(remat_rewrite(c->ctx, arena, &evaluator->clones, &out->decision, &graph));
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

remat_status remat_rung_try(struct remat_chooser *c, struct remat_arena *scratch,
                            const struct remat_planner *planner, struct remat_rung *rung,
                            uint64_t limit_bytes, uint64_t *bytes)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_rung_evaluate(c, scratch, planner, rung, limit_bytes));
    *bytes = rung->cost.arena_bytes;
    if (*bytes > c->limit_bytes || (c->incumbent && remat_rung_compare(c->incumbent, rung) <= 0))
        return REMAT_OK;
    if (!c->incumbent)
        REMAT_NEW(c->arena, c->incumbent, 1);
    *c->incumbent = *rung;
    c->state.best_ns = rung->cost.step_ns;
fail:
    return st;
}

/* --- proposals by what they cost at least: manual policies, and what is near corners --- */

static int compare_least(const void *a, const void *b)
{
    const struct remat_rung *x = a, *y = b;
    if (x->least.step_ns != y->least.step_ns)
        return x->least.step_ns < y->least.step_ns ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

int remat_rung_compare(const void *a, const void *b)
{
    const struct remat_rung *x = a, *y = b;
    if (x->cost.step_ns != y->cost.step_ns)
        return x->cost.step_ns < y->cost.step_ns ? -1 : 1;
    if (x->cost.live_peak_bytes != y->cost.live_peak_bytes)
        return x->cost.live_peak_bytes < y->cost.live_peak_bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

remat_status remat_rung_find_least(struct remat_chooser *c, struct remat_arena *scratch,
                                   const struct remat_planner *planner, struct remat_rung *rung)
{
    remat_status st = REMAT_OK;
    struct remat_decision decision;
    struct remat_notes ignored = {0};
    REMAT_TRY(decide(c, scratch, planner, &rung->of, &ignored, &decision));
    REMAT_TRY(remat_planner_least(planner, scratch, &decision, &rung->least));
fail:
    remat_arena_reset(scratch);
    return st;
}

bool remat_rung_is_settled(const struct remat_chooser *c, const struct remat_rung *rung)
{
    return rung->cost.step_ns &&
           (rung->cost.arena_bytes != UINT64_MAX || rung->cost.live_peak_bytes > c->limit_bytes);
}

/* Lists of ops often come to the same, with the same bounds. */
static void drop_twins(struct remat_rungs *rungs)
{
    size_t kept = 0;
    for (size_t i = 0; i < rungs->count; i++) {
        const struct remat_rung rung = rungs->items[i];
        bool twin = false;
        for (size_t k = kept; k-- > 0 && !twin;) {
            if (rungs->items[k].least.step_ns != rung.least.step_ns)
                break;
            twin = rungs->items[k].least.effect == rung.least.effect;
        }
        if (!twin)
            rungs->items[kept++] = rung;
    }
    rungs->count = kept;
}

remat_status remat_rungs_bound(struct remat_chooser *c, struct remat_arena *scratch,
                               const struct remat_planner *planner, struct remat_rungs *rungs)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < rungs->count; i++)
        REMAT_TRY(remat_rung_find_least(c, scratch, planner, &rungs->items[i]));
    qsort(rungs->items, rungs->count, sizeof *rungs->items, compare_least);
    drop_twins(rungs);
fail:
    return st;
}

remat_status remat_rungs_best(struct remat_chooser *c, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct remat_rungs *rungs,
                              struct remat_rung *best, bool *found)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < rungs->count; i++) {
        struct remat_rung *rung = &rungs->items[i];
        uint64_t ignored;
        if ((*found && rung->least.step_ns >= best->cost.step_ns) || remat_choose_is_over(c))
            break;
        if (rung->least.live_bytes > c->limit_bytes)
            continue;
        if (!remat_rung_is_settled(c, rung)) {
            if (*found && !rung->cost.step_ns)
                REMAT_TRY(remat_rung_evaluate(c, scratch, planner, rung, 0));
            if (*found && rung->cost.step_ns > best->cost.step_ns)
                continue;
            REMAT_TRY(remat_rung_try(c, scratch, planner, rung, c->limit_bytes, &ignored));
        }
        if (rung->cost.arena_bytes <= c->limit_bytes &&
            (!*found || remat_rung_compare(rung, best) < 0)) {
            *best = *rung;
            *found = true;
        }
    }
fail:
    return st;
}
