/* SPDX-License-Identifier: Apache-2.0 */
/* A bound above the time of a sequence that fits, planted by the linker (--wrap) in each part that
 * the planner takes bounds from, is an internal error at one budget and at several, and progress
 * is told of none; the planner's own bounds are none. */
#include "solve.h"
#include "solvers.h"
#include "support.h"

#include <string.h>

enum { NODES = 20, PROBLEMS = 3, BUDGETS = 3, TICKS = 1 << 20 };

/* The parts before the planted one say what is true of every problem: else it is seldom reached. */
static enum { NOTHING, CUTS, BRANCHES, EXHAUSTION, FAULTS } planted;
static uint32_t reached, exhaustions; /* exhaustions: at this budget */

__typeof__(remat_bound_time) __real_remat_bound_time, __wrap_remat_bound_time;
struct remat_schedule_bound __wrap_remat_bound_time(struct remat_arena *arena,
                                                    const struct remat_problem *problem,
                                                    uint64_t budget, uint32_t cuts_max,
                                                    struct remat_deadline *deadline)
{
    struct remat_schedule_bound bound =
        __real_remat_bound_time(arena, problem, budget, cuts_max, deadline);
    exhaustions = 0;
    reached += planted == CUTS;
    if (planted == CUTS)
        bound.time = remat_bound_from_ticks(problem, bound.ticks + TICKS);
    else if (planted)
        bound.time = remat_bound_from_ticks(problem, 0);
    return bound;
}

__typeof__(remat_bound_branch) __real_remat_bound_branch, __wrap_remat_bound_branch;
uint64_t __wrap_remat_bound_branch(struct remat_arena *arena, const struct remat_problem *problem,
                                   uint64_t budget, remat_problem_node node, uint64_t enough,
                                   uint32_t leaves_max, struct remat_deadline *deadline)
{
    uint64_t ticks =
        __real_remat_bound_branch(arena, problem, budget, node, enough, leaves_max, deadline);
    reached += planted == BRANCHES;
    if (planted)
        ticks = planted == BRANCHES ? ticks + TICKS : 0;
    return ticks;
}

__typeof__(remat_exact_solve) __real_remat_exact_solve, __wrap_remat_exact_solve;
struct remat_exact __wrap_remat_exact_solve(struct remat_arena *arena,
                                            const struct remat_problem *problem, uint64_t budget,
                                            uint64_t limit, uint32_t states_max,
                                            struct remat_deadline *deadline)
{
    if (planted && exhaustions++ == 0)
        return (struct remat_exact){0};
    struct remat_exact exact =
        __real_remat_exact_solve(arena, problem, budget, limit, states_max, deadline);
    reached += planted == EXHAUSTION;
    if (planted == EXHAUSTION)
        exact.ticks = TICKS;
    return exact;
}

static void on_progress(void *user, uint32_t budget, const struct remat_solution *best)
{
    (void)user;
    CHECK(!best->fits || best->lower_bound <= best->result.time,
          "fault %d: told of the bound %g above %g at budget %u", planted, best->lower_bound,
          best->result.time, budget);
}

/* Whether the planted part was asked. */
static bool check(struct test *t, const struct remat_problem *p, const uint64_t *budgets,
                  uint32_t count)
{
    struct remat_solution found[BUDGETS];
    struct remat_solve_options o = {.effort = 0.1, .progress = on_progress};
    reached = 0;
    remat_status st = remat_solve(&t->arena, p, budgets, count, &o, found);
    CHECK_STATUS(t->ctx, st, reached ? REMAT_ERROR_INTERNAL : REMAT_OK,
                 reached ? "is above the time of a sequence that fits" : "", "fault %d, %u budgets",
                 planted, count);
    return reached;
}

int main(void)
{
    struct test t;
    uint32_t reached_at[FAULTS][BUDGETS + 1] = {0};
    test_begin(&t);
    for (int i = 0; i < PROBLEMS; i++) {
        struct remat_solution given;
        uint64_t budgets[BUDGETS];
        struct remat_problem p = random_problem(&t, NODES);
        CHECK_OK(t.ctx, remat_solve_given_order(&t.arena, &p, &given));
        for (uint32_t k = 0; k < BUDGETS; k++)
            budgets[k] = given.result.peak * (7 - k) / 10;
        for (planted = NOTHING; planted < FAULTS; planted++) {
            reached_at[planted][1] += check(&t, &p, &budgets[1], 1);
            reached_at[planted][BUDGETS] += check(&t, &p, budgets, BUDGETS);
        }
        test_next(&t);
    }
    for (int fault = CUTS; fault < FAULTS; fault++) {
        printf("fault %d: asked for %u plans and %u curves of %d\n", fault, reached_at[fault][1],
               reached_at[fault][BUDGETS], PROBLEMS);
        CHECK(reached_at[fault][1] && reached_at[fault][BUDGETS], "fault %d: not asked", fault);
    }
    return test_end(&t);
}
