/* SPDX-License-Identifier: Apache-2.0 */
/* Times that are no whole numbers, of very different sizes: sums of them are rounded, differently
 * in each order, and still no bound is above the time of a sequence that fits. */
#include <math.h>

#include "solve.h"
#include "support.h"

enum { PROBLEMS = 150, NODES_MIN = 4, NODES_MAX = 40, BUDGETS = 3 };

static void make_fractions(struct test *t, struct remat_problem_parts *parts)
{
    double *time = remat_arena_array(&t->arena, parts->node_count, sizeof *time);
    for (uint32_t v = 0; v < parts->node_count; v++)
        time[v] = draw(t, 1, 999) / 10.0 * pow(10, draw(t, 0, 3) * 5.0);
    parts->time = time;
}

static void check_problem(struct test *t, uint32_t *slower)
{
    struct remat_problem_parts parts = random_parts(t, draw(t, NODES_MIN, NODES_MAX));
    struct remat_solve_options options = {.effort = 0.002};
    struct remat_solution given, plans[BUDGETS];
    uint64_t budgets[BUDGETS];
    make_fractions(t, &parts);
    struct remat_problem p = make_from_parts(t, &parts);
    remat_status st = remat_solve_given_order(&t->arena, &p, &given);
    CHECK(st == REMAT_OK && given.lower_bound <= given.result.time,
          "the given order: %.17g of %.17g", given.result.time, given.lower_bound);
    for (uint32_t i = 0; i < BUDGETS; i++)
        budgets[i] = given.result.peak - given.result.peak * i / 4;
    st = remat_solve(&t->arena, &p, budgets, BUDGETS, &options, plans);
    CHECK_OK(t->ctx, st);
    for (uint32_t i = 0; st == REMAT_OK && i < BUDGETS; i++) {
        CHECK(!plans[i].fits || plans[i].lower_bound <= plans[i].result.time,
              "%u nodes, budget %u: %.17g below %.17g", parts.node_count, i, plans[i].result.time,
              plans[i].lower_bound);
        *slower += plans[i].fits && plans[i].result.time > given.result.time;
    }
    test_next(t);
}

int main(void)
{
    struct test t;
    uint32_t slower = 0;
    test_begin(&t);
    t.random = 1;
    for (uint32_t i = 0; i < PROBLEMS; i++)
        check_problem(&t, &slower);
    CHECK(slower > PROBLEMS / 2, "only %u sequences run anything again", slower);
    return test_end(&t);
}
