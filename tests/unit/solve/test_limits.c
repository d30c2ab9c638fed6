/* SPDX-License-Identifier: Apache-2.0 */
/* On graphs whose nodes read many others: each phase asks whether it is over about as often as it
 * counts work, and ends soon after the answer is yes, with a valid result. By counted steps, no
 * clock. And what is done without a limit is bounded by counted work too. */
#include "solve.h"
#include "solvers.h"
#include "support.h"

enum { NODES = 600, INPUTS = 120, SOON = 1 << 19 };
#define CUTS_STEPS   6e8
#define EFFORT_STEPS 7e8 /* 6.3e8 */

struct asked {
    struct remat_deadline deadline;
    uint64_t count, yes; /* how often so far; the one to say yes to */
    uint64_t last, at_yes, longest;
};

static bool answer(void *user)
{
    struct asked *a = user;
    uint64_t since = a->deadline.steps - a->last;
    a->longest = since > a->longest ? since : a->longest;
    a->last = a->at_yes = a->deadline.steps;
    return ++a->count == a->yes;
}

static void ask(struct asked *a, uint64_t yes)
{
    *a = (struct asked){.yes = yes};
    a->deadline = (struct remat_deadline){.expired = answer, .user = a};
}

/* Node i reads up to `inputs` of those before it. */
static struct remat_problem make_dense(struct test *t, uint32_t n, uint32_t inputs)
{
    double *time = remat_arena_array(&t->arena, n, sizeof *time);
    uint64_t *bytes = remat_arena_array(&t->arena, n, sizeof *bytes);
    uint32_t *begin = remat_arena_array(&t->arena, n + 1, sizeof *begin);
    uint32_t *list = remat_arena_array(&t->arena, (size_t)n * inputs, sizeof *list);
    t->random = 1;
    for (uint32_t v = 0; v < n; v++) {
        begin[v + 1] = begin[v];
        for (uint32_t k = 0; v && k < inputs; k++)
            list[begin[v + 1]++] = draw(t, 0, v - 1);
        time[v] = draw(t, 1, 9);
        bytes[v] = draw(t, 1, 20);
    }
    return make_problem(t, n, time, bytes, begin, list);
}

/* Nodes 0 .. n - 1 in a row; those after read none in order, so that no length of it is a chain's.
 */
static struct remat_problem make_almost_chain(struct test *t, uint32_t n)
{
    double *time = remat_arena_array(&t->arena, 2 * n, sizeof *time);
    uint64_t *bytes = remat_arena_array(&t->arena, 2 * n, sizeof *bytes);
    uint32_t *begin = remat_arena_array(&t->arena, 2 * n + 1, sizeof *begin);
    uint32_t *list = remat_arena_array(&t->arena, 2 * n, sizeof *list);
    for (uint32_t v = 0; v < 2 * n; v++) {
        time[v] = 1;
        bytes[v] = 1;
        begin[v + 1] = begin[v];
        if (v)
            list[begin[v + 1]++] = v < n ? v - 1 : v == 2 * n - 1 ? 2 : 0;
    }
    return make_problem(t, 2 * n, time, bytes, begin, list);
}

struct phase {
    const char *name;
    uint64_t asks; /* at least, when it is not ended */
    remat_status (*run)(struct test *t, const struct remat_problem *p, struct asked *a);
};

static uint64_t budget_of(struct test *t, const struct remat_problem *p)
{
    struct remat_solution given;
    CHECK_OK(t->ctx, remat_solve_given_order(&t->arena, p, &given));
    return given.result.peak * 60 / 100;
}

static remat_status run_floor(struct test *t, const struct remat_problem *p, struct asked *a)
{
    struct remat_floor floor, full;
    floor = remat_floor_find(&t->arena, p, 50, &a->deadline);
    full = remat_floor_find(&t->arena, p, 50, NULL);
    CHECK(floor.bytes <= full.bytes && !(a->deadline.hit && floor.exact), "floor %lu of %lu",
          (unsigned long)floor.bytes, (unsigned long)full.bytes);
    CHECK(floor.bytes >= remat_problem_working_set(p, floor.node), "floor of node %u",
          floor.node.i);
    return REMAT_OK;
}

static remat_status run_bound(struct test *t, const struct remat_problem *p, struct asked *a)
{
    struct remat_schedule_bound bound, full;
    uint64_t budget = budget_of(t, p);
    bound = remat_bound_time(&t->arena, p, budget, 8, &a->deadline);
    full = remat_bound_time(&t->arena, p, budget, 8, NULL);
    CHECK(bound.time >= p->least_time && bound.time <= full.time, "bound %g of %g", bound.time,
          full.time);
    CHECK(!(a->deadline.hit && bound.keep_more), "cuts of an unfinished flow");
    return REMAT_OK;
}

static remat_status run_greedy(struct test *t, const struct remat_problem *p, struct asked *a)
{
    struct remat_looks looks = remat_construct_looks(p);
    looks.late = 100000;
    remat_construct_greedy(&t->arena, p, budget_of(t, p), &remat_evictions[1], &a->deadline,
                           &looks);
    return REMAT_OK;
}

static remat_status run_search(struct test *t, const struct remat_problem *p, struct asked *a)
{
    struct remat_solution given;
    struct remat_sequence found;
    struct remat_simulation result;
    struct remat_search_options o = {.budget = budget_of(t, p),
                                     .moves = 2000,
                                     .seed = 1,
                                     .hot = 1e-3,
                                     .cold = 1e-6,
                                     .pressure = 10,
                                     .deadline = &a->deadline};
    remat_status st = remat_solve_given_order(&t->arena, p, &given);
    CHECK_OK(t->ctx, st);
    found = remat_search(&t->arena, p, &given.sequence, &o);
    CHECK_OK(t->ctx, remat_simulate(t->ctx, p, found.items, found.count, &result));
    return st;
}

static remat_status run_chain(struct test *t, const struct remat_problem *p, struct asked *a)
{
    remat_chain_find(&t->arena, p, REMAT_PROBLEM_BYTES_MAX, &a->deadline);
    return REMAT_OK;
}

static void check_phase(struct test *t, const struct phase *phase, const struct remat_problem *p)
{
    struct asked a;
    ask(&a, 0);
    CHECK_OK(t->ctx, phase->run(t, p, &a), "%s", phase->name);
    uint64_t all = a.count, longest = a.longest;
    printf("%s: %lu asks, at most %lu steps between two\n", phase->name, (unsigned long)all,
           (unsigned long)longest);
    CHECK(all >= phase->asks && longest <= SOON, "%s: %lu asks, %lu steps without one", phase->name,
          (unsigned long)all, (unsigned long)longest);
    for (uint64_t yes = 1; yes <= all; yes += 1 + all / 5) {
        ask(&a, yes);
        CHECK_OK(t->ctx, phase->run(t, p, &a), "%s", phase->name);
        CHECK(a.deadline.hit && a.deadline.steps - a.at_yes <= SOON, "%s: %lu steps after",
              phase->name, (unsigned long)(a.deadline.steps - a.at_yes));
    }
}

/* A cut at every node. */
static void check_cuts(struct test *t, const struct remat_problem *p)
{
    struct asked a;
    ask(&a, 0);
    remat_bound_time(&t->arena, p, budget_of(t, p), p->node_count, &a.deadline);
    printf("cuts: %.3g steps\n", (double)a.deadline.steps);
    CHECK(a.deadline.steps <= CUTS_STEPS, "%.3g steps", (double)a.deadline.steps);
}

/* Far below what fits, where everything is tried. */
static void check_effort(struct test *t)
{
    struct remat_problem p = make_dense(t, 1100, INPUTS);
    struct asked a;
    struct remat_solution plan;
    uint64_t budget = budget_of(t, &p);
    struct remat_solve_options o = {.effort = 0.02, .deadline = &a.deadline};
    ask(&a, 0);
    CHECK_OK(t->ctx, remat_solve(&t->arena, &p, &budget, 1, &o, &plan));
    printf("effort: %.3g steps\n", (double)a.deadline.steps);
    CHECK(a.deadline.steps <= EFFORT_STEPS, "%.3g steps", (double)a.deadline.steps);
    check_cuts(t, &p);
    test_next(t);
}

int main(void)
{
    static const struct phase dense[] = {{"floor", 30, run_floor},
                                         {"bound", 700, run_bound},
                                         {"greedy", 100, run_greedy},
                                         {"search", 30, run_search}};
    static const struct phase chain = {"chain", 100, run_chain};
    struct test t;
    test_begin(&t);
    struct remat_problem p = make_dense(&t, NODES, INPUTS);
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        check_phase(&t, &dense[i], &p);
    test_next(&t);
    p = make_almost_chain(&t, 3000);
    check_phase(&t, &chain, &p);
    test_next(&t);
    check_effort(&t);
    return test_end(&t);
}
