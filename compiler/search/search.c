/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <inttypes.h>

#include "amounts.h"

uint64_t remat_search_step_ns(const struct remat_search *s, uint64_t ns)
{
    const struct remat_step_time decided = {.ns = ns};
    return ns ? remat_step_sum(s->step, &decided).ns : 0;
}

uint64_t remat_search_bound_ns(const struct remat_search *s, uint64_t ns)
{
    const struct remat_step_time decided = {.least_ns = ns};
    return ns ? remat_step_sum(s->step, &decided).least_ns : 0;
}

bool remat_search_is_over(struct remat_search *s)
{
    const struct remat_search_settings *settings = s->settings;
    struct remat_search_state state = s->state;
    state.best_ns = remat_search_step_ns(s, state.best_ns);
    state.bound_ns = remat_search_bound_ns(s, state.bound_ns);
    if (state.best_ns && state.bound_ns > state.best_ns)
        state.bound_ns = 0; /* never shown: remat_choose fails for it */
    remat_unwind_if_late(s->ctx);
    if (!s->over && settings->is_over)
        s->over = settings->is_over(settings->is_over_user, &state);
    return s->over;
}

bool remat_search_per_op(const struct remat_search *s)
{
    return s->settings->has_budget && s->settings->solver == REMAT_SOLVER_PER_OP &&
           !remat_policy_given(&s->settings->policy);
}

void remat_search_raise_floor(struct remat_search *s, uint64_t arena_bytes, bool always)
{
    const struct remat_search_settings *settings = s->settings;
    remat_keep_most(&s->floor_bytes, arena_bytes);
    struct remat_refusal refusal = {.budget_bytes = settings->budget_bytes,
                                    .reserve_bytes = s->reserve_bytes,
                                    .floor_bytes = s->floor_bytes + s->reserve_bytes};
    if (s->floor_bytes > s->limit_bytes && settings->refused && (always || !settings->briefly))
        settings->refused(settings->refused_user, &refusal);
}

remat_status remat_search_refuse_briefly(struct remat_search *s)
{
    return remat_error(s->ctx, REMAT_ERROR_INFEASIBLE, "budget %" PRIu64 " B is too small",
                       s->settings->budget_bytes);
}

remat_status remat_search_plan(struct remat_search *s, bool bounds_only)
{
    assert(!s->planner);
    REMAT_CHECK(remat_price_check_list(s->ctx, s->graph, s->evaluator->settled->kernels,
                                       s->evaluator->prices, s->evaluator->device));
    s->planner = remat_planner_create(s->planning, s->evaluator, &s->model, bounds_only);
    remat_search_raise_floor(s, s->fixed_arena_bytes, false);
    remat_search_raise_floor(s, s->planner->floor_bytes, false);
    if (s->settings->has_budget && s->limit_bytes >= s->floor_bytes)
        s->state.bound_ns = remat_planner_bound(s->planner, s->limit_bytes);
    return REMAT_OK;
}

remat_status remat_search_check_bound(struct remat_search *s, uint64_t bound_ns, uint64_t step_ns)
{
    if (bound_ns <= step_ns)
        return REMAT_OK;
    return remat_error(s->ctx, REMAT_ERROR_INTERNAL,
                       "the bound of %" PRIu64 " ns is above the plan's own %" PRIu64 " ns",
                       bound_ns, step_ns);
}
