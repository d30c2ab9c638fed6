/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of the planner earns its place: on fixed problems too large for exhaustion the result
 * without it is worse than what is asserted here. And budgets agree with each other: what fits in
 * one fits in every larger one, and where nothing is found the same least peak is named. */
#include "solve.h"
#include "solvers.h"
#include "support.h"

enum { PROBLEMS = 40, NODES = 90, IRREGULAR = 4, IRREGULAR_NODES = 66, WINDOW = 25, BUDGETS = 7 };

static void solve(struct test *t, const struct remat_problem *p, uint64_t budget, double effort,
                  struct remat_solution *out)
{
    struct remat_solve_options options = {.effort = effort};
    CHECK_OK(t->ctx, remat_solve(&t->arena, p, &budget, 1, &options, out));
}

static uint64_t peak_as_given(struct test *t, const struct remat_problem *p)
{
    struct remat_solution given;
    CHECK_OK(t->ctx, remat_solve_given_order(&t->arena, p, &given));
    return given.result.peak;
}

/* Without annealing: greedy plans, and those that keep what a cut keeps (20,974 without the former,
 * 20,895 without the latter). */
static void check_starts(struct test *t)
{
    double time = 0, least = 0;
    uint32_t fit = 0;
    t->random = 1;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct remat_problem p = random_problem(t, NODES);
        struct remat_solution plan;
        solve(t, &p, peak_as_given(t, &p) * (i % 2 ? 85 : 60) / 100, 1e-9, &plan);
        fit += plan.fits;
        time += plan.fits ? plan.result.time : 0;
        least += p.least_time;
        test_next(t);
    }
    printf("starts: %u of %u fit, time %g of at least %g\n", fit, PROBLEMS, time, least);
    CHECK(fit == PROBLEMS, "a start is missing");
    check_figure(least / time, "solve_rules least time / time of starts");
}

/* A layer's forward ops; input -1 is the value before the layer. */
enum { LAYERS = 32, OPS = 7 };
static const struct op {
    double time;
    uint64_t bytes;
    int inputs[2];
} ops[OPS] = {{1, 4, {-1, -1}}, {12, 12, {0, 0}}, {9, 5, {1, 1}}, {4, 4, {2, -1}},
              {1, 4, {3, 3}},   {16, 16, {4, 4}}, {2, 16, {5, 5}}};

/* Then the backward pass: a gradient reads the one before it and what its op has read. */
static struct remat_problem make_layers(struct test *t)
{
    uint32_t forward = OPS * LAYERS + 1, n = 2 * forward - 1, count = 0;
    double *time = remat_arena_array(&t->arena, n, sizeof *time);
    uint64_t *bytes = remat_arena_array(&t->arena, n, sizeof *bytes);
    uint32_t *begin = remat_arena_array(&t->arena, n + 1, sizeof *begin);
    uint32_t *inputs = remat_arena_array(&t->arena, (size_t)3 * n, sizeof *inputs);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t of = v < forward ? v : n - v; /* the forward node, 1 .. */
        const struct op *op = &ops[(of + OPS - 1) % OPS];
        uint32_t first = of ? of - (of - 1) % OPS : 0; /* of its layer */
        time[v] = op->time * (1 + (v >= forward));
        bytes[v] = v < forward ? op->bytes : op->inputs[0] < 0 ? 4 : ops[op->inputs[0]].bytes;
        begin[v] = count;
        if (v >= forward)
            inputs[count++] = v - 1;
        for (uint32_t i = 0; of && i < 2; i++)
            if (i == 0 || op->inputs[1] != op->inputs[0])
                inputs[count++] = first + (uint32_t)op->inputs[i];
    }
    begin[n] = count;
    return make_problem(t, n, time, bytes, begin, inputs);
}

/* Without annealing: of layers that are all alike the first are recomputed (4,686 without). */
static void check_cuts(struct test *t)
{
    struct remat_problem p = make_layers(t);
    struct remat_solution plan;
    solve(t, &p, peak_as_given(t, &p) / 2, 1e-9, &plan);
    printf("cuts: time %g of at least %g\n", plan.result.time, plan.lower_bound);
    CHECK(plan.fits && plan.result.time <= plan.lower_bound, "cut plans are missing");
    test_next(t);
}

/* Branches close gaps that cuts leave. */
static void check_branches(struct test *t)
{
    uint32_t by_cuts = 0, proven = 0;
    t->random = 2;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct remat_problem p = random_problem(t, NODES);
        struct remat_solution plan;
        struct remat_schedule_bound bound;
        uint64_t budget = peak_as_given(t, &p) * (i % 2 ? 70 : 60) / 100;
        bound = remat_bound_time(&t->arena, &p, budget, NODES, NULL);
        solve(t, &p, budget, 0.1, &plan);
        by_cuts += plan.fits && plan.result.time <= bound.time;
        proven += plan.fits && plan.result.time <= plan.lower_bound;
        test_next(t);
    }
    printf("proven optimal: %u of %u, by cuts alone %u\n", proven, PROBLEMS, by_cuts);
    check_figure(proven, "solve_rules proven optimal");
    check_figure(by_cuts, "solve_rules proven optimal by cuts alone");
}

/* Node i reads one to three of the 25 before it. */
static struct remat_problem make_irregular(struct test *t, uint32_t n)
{
    double *time = remat_arena_array(&t->arena, n, sizeof *time);
    uint64_t *bytes = remat_arena_array(&t->arena, n, sizeof *bytes);
    uint32_t *begin = remat_arena_array(&t->arena, n + 1, sizeof *begin);
    uint32_t *inputs = remat_arena_array(&t->arena, (size_t)3 * n, sizeof *inputs);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t count = draw(t, 1, 3), low = v > WINDOW ? v - WINDOW : 0;
        begin[v + 1] = begin[v];
        for (uint32_t k = 0; v && k < count; k++)
            inputs[begin[v + 1]++] = draw(t, low, v - 1);
        time[v] = draw(t, 1, 9);
        bytes[v] = draw(t, 1, 20);
    }
    return make_problem(t, n, time, bytes, begin, inputs);
}

static void check_agreement(struct test *t, uint64_t *found, uint64_t *given)
{
    struct remat_problem p = make_irregular(t, IRREGULAR_NODES);
    struct remat_solution plan, none;
    uint64_t peak = peak_as_given(t, &p);
    double slowest = 0;
    solve(t, &p, 1, 0.1, &none); /* nothing fits: the least peak */
    CHECK(!none.fits, "a plan in 1 B");
    uint64_t least = none.result.peak;
    *found += least;
    *given += peak;
    for (uint32_t i = 0; i < BUDGETS; i++) { /* upwards */
        uint64_t budget = least + (peak - least) * i / BUDGETS;
        solve(t, &p, budget, 0.1, &plan);
        CHECK(plan.fits, "least peak %lu, none within %lu", (unsigned long)least,
              (unsigned long)budget);
        CHECK(i == 0 || plan.result.time <= slowest * 1.02, "time %g within %lu, %g in less",
              plan.result.time, (unsigned long)budget, slowest);
        slowest = plan.result.time;
    }
    solve(t, &p, least - 1, 0.1, &plan);
    CHECK(!plan.fits && plan.result.peak == least, "named: %lu and %lu",
          (unsigned long)plan.result.peak, (unsigned long)least);
    test_next(t);
}

int main(void)
{
    struct test t;
    uint64_t found = 0, given = 0;
    test_begin(&t);
    check_starts(&t);
    check_cuts(&t);
    check_branches(&t);
    t.random = 3;
    for (uint32_t i = 0; i < IRREGULAR; i++)
        check_agreement(&t, &found, &given);
    printf("least peaks: %lu of %lu\n", (unsigned long)found, (unsigned long)given);
    check_figure((double)given / (double)found, "solve_rules peak as given / least peak");
    return test_end(&t);
}
