/* SPDX-License-Identifier: Apache-2.0 */
/* Small random problems, bare ones and such as a compiler makes, against an exhaustive search of
 * the tests' own: the plan is an optimum and the floor the least peak; the bound by cuts never
 * exceeds the optimum, and annealing alone is never below it. Prints how often and how close the
 * last two are. Then the same checks find planted faults. With "small" the faults alone, with "all"
 * four times the problems, as in docs/problems.md. */
#include "oracle.h"
#include "solve.h"
#include "solvers.h"
#include "support.h"

#include <math.h>

enum { BARE = 2400, EXTENDED = 1200, FAULTY = 400, PADDED = 200, PADDING = 60 };
#define PADDED_EFFORT 0.05

struct tally {
    const char *what;
    uint32_t problems, optimal, costly, annealed, fitted, cut, cut_exact, branch_exact, floors;
    double excess, worst, anneal_excess, anneal_worst, cut_share, cut_ratio, branch_share,
        branch_ratio;
};

/* One problem with what the oracle says of it. */
struct sample {
    struct remat_problem_parts parts;
    struct remat_problem problem;
    uint64_t least_peak, budget;
    double best;
};

static uint32_t draw_size(struct test *t)
{
    uint32_t a = draw(t, 3, 12), b = draw(t, 3, 12);
    return a < b ? b : a;
}

static void make_sample(struct test *t, bool extended, struct sample *s)
{
    struct remat_solution given;
    s->parts = random_parts(t, draw_size(t));
    if (extended)
        add_random_extras(t, &s->parts);
    s->problem = make_from_parts(t, &s->parts);
    CHECK_OK(t->ctx, remat_solve_given_order(&t->arena, &s->problem, &given));
    s->least_peak = oracle_peak(&s->parts);
    uint32_t least = (uint32_t)s->least_peak, peak = (uint32_t)given.result.peak;
    s->budget = draw(t, least, peak > least ? peak - 1 : peak);
    s->best = oracle_time(&s->parts, s->budget);
}

static void solve(struct test *t, const struct remat_problem *p, uint64_t budget,
                  struct remat_solution *out)
{
    struct remat_solve_options options = {.effort = 0.02};
    CHECK_OK(t->ctx, remat_solve(&t->arena, p, &budget, 1, &options, out));
}

static void check_plan(struct test *t, const struct sample *s, struct tally *tally)
{
    struct remat_solution plan, less;
    double time;
    uint64_t peak;
    solve(t, &s->problem, s->budget, &plan);
    CHECK(plan.fits, "no plan where one exists");
    CHECK(plain_simulate(&s->problem, plan.sequence.items, plan.sequence.count, &time, &peak),
          "not valid");
    CHECK(time == plan.result.time && peak == plan.result.peak && peak <= s->budget,
          "time %g, peak %lu", time, (unsigned long)peak);
    CHECK(time >= s->best, "time %g below the optimum %g", time, s->best);
    CHECK(plan.lower_bound <= s->best, "bound %g, optimum %g", plan.lower_bound, s->best);
    double excess = time / s->best - 1;
    tally->optimal += time == s->best;
    tally->excess += excess;
    tally->worst = excess > tally->worst ? excess : tally->worst;
    solve(t, &s->problem, s->budget - 1, &less);
    CHECK(!less.fits || less.result.time >= s->best, "faster with less");
    CHECK(!less.fits || s->budget > s->least_peak, "a plan below the least peak");
}

static void check_bound(struct test *t, const struct sample *s, struct tally *tally)
{
    struct remat_schedule_bound bound;
    bound = remat_bound_time(&t->arena, &s->problem, s->budget, 32, NULL);
    CHECK(bound.time <= s->best, "bound %g above the optimum %g", bound.time, s->best);
    double branched = bound.time;
    for (uint32_t i = 0; i < bound.best_count; i++) {
        uint64_t ticks = remat_bound_branch(&t->arena, &s->problem, s->budget, bound.best[i],
                                            UINT64_MAX, 200, NULL);
        double time = remat_bound_from_ticks(&s->problem, ticks);
        CHECK(time <= s->best, "bound by branches %g above the optimum %g", time, s->best);
        branched = time > branched ? time : branched;
    }
    if (s->best == s->problem.least_time)
        return;
    tally->branch_exact += branched == s->best;
    tally->branch_share += (branched - s->problem.least_time) / (s->best - s->problem.least_time);
    tally->branch_ratio += branched / s->best;
    tally->costly++;
    tally->cut += bound.ticks > 0;
    tally->cut_exact += bound.time == s->best;
    tally->cut_share += (bound.time - s->problem.least_time) / (s->best - s->problem.least_time);
    tally->cut_ratio += bound.time / s->best;
}

static void check_annealing(struct test *t, const struct sample *s, struct tally *tally)
{
    struct remat_solution given;
    struct remat_sequence found;
    struct remat_simulation r;
    struct remat_search_options o = {
        .budget = s->budget, .moves = 20000, .seed = 1, .hot = 3e-3, .cold = 1e-6, .pressure = 10};
    CHECK_OK(t->ctx, remat_solve_given_order(&t->arena, &s->problem, &given));
    found = remat_search(&t->arena, &s->problem, &given.sequence, &o);
    CHECK_OK(t->ctx, remat_simulate(t->ctx, &s->problem, found.items, found.count, &r));
    if (r.peak > s->budget)
        return;
    CHECK(r.time >= s->best, "time %g below the optimum %g: one of the two is wrong", r.time,
          s->best);
    double excess = r.time / s->best - 1;
    tally->fitted++;
    tally->annealed += excess == 0;
    tally->anneal_excess += excess;
    tally->anneal_worst = excess > tally->anneal_worst ? excess : tally->anneal_worst;
}

static void check_floor(struct test *t, const struct sample *s, struct tally *tally)
{
    struct remat_floor floor, hurried;
    unsigned long least = (unsigned long)s->least_peak;
    floor = remat_floor_find(&t->arena, &s->problem, 100000, NULL);
    hurried = remat_floor_find(&t->arena, &s->problem, draw(t, 0, 6), NULL);
    CHECK(floor.bytes <= least, "floor %lu above the least peak %lu", (unsigned long)floor.bytes,
          least);
    CHECK(hurried.bytes <= floor.bytes, "a hurried floor above the thorough one");
    CHECK(!hurried.exact || hurried.bytes == least, "a floor called exact is not");
    CHECK(!floor.exact || floor.bytes == least, "floor %lu, least peak %lu",
          (unsigned long)floor.bytes, least);
    CHECK(floor.exact || s->problem.has_once || s->problem.has_lasting, "not exact");
    tally->floors += floor.bytes == least;
}

static void print_tally(const struct tally *y)
{
    double n = y->problems, costly = y->costly + 1e-9, fitted = y->fitted + 1e-9;
    printf("%s: %u of %u plans optimal, mean excess %.3f %%, worst %.1f %%; floor equal in %u\n",
           y->what, y->optimal, y->problems, 100 * y->excess / n, 100 * y->worst, y->floors);
    printf("  annealing alone: %u within the budget, %u optimal, mean excess %.3f %%, worst %.1f "
           "%%\n",
           y->fitted, y->annealed, 100 * y->anneal_excess / fitted, 100 * y->anneal_worst);
    printf("  %u cost time: bound by cuts above the sum in %u, equal to the optimum in %u, mean "
           "share %.2f of the overhead, mean ratio to the optimum %.3f\n",
           y->costly, y->cut, y->cut_exact, y->cut_share / costly, y->cut_ratio / costly);
    printf("  with branches: equal in %u, mean share %.2f, mean ratio %.3f\n", y->branch_exact,
           y->branch_share / costly, y->branch_ratio / costly);
}

static void check_kind(struct test *t, const char *what, bool extended, uint32_t problems,
                       bool committed)
{
    struct tally tally = {.what = what, .problems = problems};
    struct sample s;
    for (uint32_t i = 0; i < problems; i++) {
        make_sample(t, extended, &s);
        check_floor(t, &s, &tally);
        check_plan(t, &s, &tally);
        check_bound(t, &s, &tally);
        check_annealing(t, &s, &tally);
        test_next(t);
    }
    print_tally(&tally);
    if (!committed)
        return;
    check_figure((double)tally.optimal / problems, "solve_oracle share of optimal plans, %s", what);
    check_figure(problems / (problems + tally.excess), "solve_oracle optimum / plan, %s", what);
    check_figure((double)tally.floors / problems, "solve_oracle share of exact floors, %s", what);
    check_figure((double)tally.annealed / problems, "solve_oracle share optimal by annealing, %s",
                 what);
    check_figure(tally.cut_ratio / tally.costly, "solve_oracle bound by cuts / optimum, %s", what);
    check_figure(tally.branch_ratio / tally.costly, "solve_oracle bound by branches / optimum, %s",
                 what);
}

/* --- without exhaustion --- */

/* The problem beside nodes that take nothing: the same optimum. As a chain they are too many for
 * exhaustion. */
static struct remat_problem make_padded(struct test *t, const struct remat_problem_parts *p,
                                        bool chain)
{
    uint32_t n = p->node_count + PADDING, edges = p->input_begin[p->node_count];
    double *time = remat_arena_array(&t->arena, n, sizeof *time);
    uint64_t *bytes = remat_arena_array(&t->arena, n, sizeof *bytes);
    uint32_t *begin = remat_arena_array(&t->arena, n + 1, sizeof *begin);
    uint32_t *inputs = remat_arena_array(&t->arena, edges + PADDING, sizeof *inputs);
    memcpy(time, p->time, p->node_count * sizeof *time);
    memcpy(bytes, p->bytes, p->node_count * sizeof *bytes);
    memcpy(begin, p->input_begin, (p->node_count + 1) * sizeof *begin);
    memcpy(inputs, p->inputs, edges * sizeof *inputs);
    for (uint32_t v = p->node_count; v < n; v++) {
        if (chain && v > p->node_count)
            inputs[edges++] = v - 1;
        begin[v + 1] = edges;
    }
    return make_problem(t, n, time, bytes, begin, inputs);
}

static void check_without_exhaustion(struct test *t, uint32_t problems, bool committed)
{
    struct sample s;
    uint32_t optimal = 0, fits = 0;
    double excess = 0, worst = 0;
    for (uint32_t i = 0; i < problems; i++) {
        struct remat_solution plan;
        struct remat_solve_options options = {.effort = PADDED_EFFORT};
        make_sample(t, false, &s);
        struct remat_problem p = make_padded(t, &s.parts, true);
        CHECK_OK(t->ctx, remat_solve(&t->arena, &p, &s.budget, 1, &options, &plan));
        CHECK(plan.lower_bound <= s.best, "bound %g, optimum %g", plan.lower_bound, s.best);
        if (plan.fits) {
            double more = plan.result.time / s.best - 1;
            CHECK(more >= 0, "time %g below the optimum %g", plan.result.time, s.best);
            fits++;
            optimal += more == 0;
            excess += more;
            worst = more > worst ? more : worst;
        }
        test_next(t);
    }
    printf("without exhaustion: %u of %u within the budget, %u optimal, mean excess %.3f %%, worst "
           "%.1f %%\n",
           fits, problems, optimal, 100 * excess / fits, 100 * worst);
    CHECK(fits == problems, "no plan where one exists");
    if (!committed)
        return;
    check_figure((double)optimal / problems, "solve_oracle share of optimal plans, not exhaustive");
    check_figure(fits / (fits + excess), "solve_oracle optimum / plan, not exhaustive");
}

/* --- beside nodes that no plan is about --- */

/* Where the nodes go among PADDING idle ones. */
static uint32_t *scatter(struct test *t, uint32_t count)
{
    uint32_t *place = remat_arena_array(&t->arena, count, sizeof *place);
    for (uint32_t v = 0, at = 0; at < count; v++)
        if (v == PADDING + at || draw(t, 0, 5) == 0)
            place[at++] = v;
    return place;
}

#define MOVED(array, n, place)                                                                     \
    (array) ? move(t, (array), sizeof *(array), s->node_count, (n), (place)) : NULL

static void *move(struct test *t, const void *items, size_t bytes, uint32_t count, uint32_t n,
                  const uint32_t *place)
{
    char *out = remat_arena_array(&t->arena, n, bytes);
    for (uint32_t v = 0; v < count; v++)
        memcpy(out + place[v] * bytes, (const char *)items + v * bytes, bytes);
    return out;
}

static remat_problem_node *renumber(struct test *t, const remat_problem_node *nodes, uint32_t count,
                                    const uint32_t *place)
{
    remat_problem_node *out = remat_arena_array(&t->arena, count, sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        out[i].i = place[nodes[i].i];
    return out;
}

/* The problem among nodes that take `each` bytes and nothing else; with any they are not idle. */
static struct remat_problem make_beside_idle(struct test *t, const struct remat_problem_parts *s,
                                             uint64_t each)
{
    uint32_t n = s->node_count + PADDING, *place = scatter(t, s->node_count);
    uint32_t *begin = remat_arena_array(&t->arena, n + 1, sizeof *begin);
    remat_problem_node *alias = remat_arena_array(&t->arena, n, sizeof *alias);
    struct remat_mode *modes = remat_arena_array(&t->arena, s->mode_count, sizeof *modes);
    uint64_t *bytes = remat_arena_array(&t->arena, n, sizeof *bytes);
    memset(alias, 0xff, n * sizeof *alias);
    for (uint32_t v = 0; v < n; v++)
        bytes[v] = each;
    for (uint32_t v = 0; v < s->node_count; v++) {
        bytes[place[v]] = s->bytes[v];
        begin[place[v] + 1] = s->input_begin[v + 1] - s->input_begin[v];
        if (s->alias && s->alias[v].i != UINT32_MAX)
            alias[place[v]].i = place[s->alias[v].i];
    }
    for (uint32_t v = 0; v < n; v++)
        begin[v + 1] += begin[v];
    for (uint32_t w = 0; w < s->mode_count; w++) {
        modes[w] = s->modes[w];
        modes[w].node.i = place[s->modes[w].node.i];
        modes[w].fused = renumber(t, s->modes[w].fused, s->modes[w].fused_count, place);
    }
    struct remat_problem_parts parts = {
        .node_count = n,
        .time = MOVED(s->time, n, place),
        .bytes = bytes,
        .input_begin = begin,
        .inputs = renumber(t, s->inputs, s->input_begin[s->node_count], place),
        .static_bytes = s->static_bytes,
        .workspace = MOVED(s->workspace, n, place),
        .lasting = MOVED(s->lasting, n, place),
        .once = MOVED(s->once, n, place),
        .alias = alias,
        .modes = modes,
        .mode_count = s->mode_count};
    return make_from_parts(t, &parts);
}

static void check_valid(const struct remat_problem *p, const struct sample *s,
                        const struct remat_solution *plan)
{
    double time;
    uint64_t peak;
    CHECK(plain_simulate(p, plan->sequence.items, plan->sequence.count, &time, &peak) &&
              time == plan->result.time && peak == plan->result.peak,
          "%g in %llu B", time, (unsigned long long)peak);
    CHECK(!plan->fits || (peak <= s->budget && time > (1 - 1e-9) * s->best),
          "%g in %llu B, optimum %g", time, (unsigned long long)peak, s->best);
    CHECK(plan->lower_bound < (1 + 1e-9) * s->best, "bound %g, optimum %g", plan->lower_bound,
          s->best);
}

/* Exhaustion finds the optimum and proves it, as without them. With a byte each, which they need
 * when nothing else is live, the optimum is the same, and they are too many for exhaustion. */
static void check_beside_idle(struct test *t)
{
    struct sample s;
    for (uint32_t i = 0; i < PADDED; i++) {
        struct remat_solution plan;
        make_sample(t, i % 2 > 0, &s);
        struct remat_problem p = make_beside_idle(t, &s.parts, 1);
        solve(t, &p, s.budget, &plan);
        check_valid(&p, &s, &plan);
        p = make_beside_idle(t, &s.parts, 0);
        solve(t, &p, s.budget, &plan);
        check_valid(&p, &s, &plan);
        CHECK(plan.fits && fabs(plan.result.time / s.best - 1) < 1e-9, "time %g, optimum %g",
              plan.result.time, s.best);
        CHECK(plan.lower_bound > (1 - 1e-9) * s.best, "bound %g of %g", plan.lower_bound, s.best);
        test_next(t);
    }
}

/* --- planted faults --- */

/* A planner that forgets one rule: its plans must be caught, sooner or later, as not valid, above
 * the budget, or not optimal. */
static const char *const rules[] = {"an input",     "workspace", "bytes that last", "run once",
                                    "static bytes", "aliases",   "other modes"};

static void forget(struct test *t, uint32_t rule, struct remat_problem_parts *p)
{
    uint32_t n = p->node_count;
    remat_problem_node *inputs;
    switch (rule) {
    case 0: /* the last node's only or second one becomes another node, not read before */
        inputs = remat_arena_array(&t->arena, p->input_begin[n], sizeof *inputs);
        memcpy(inputs, p->inputs, p->input_begin[n] * sizeof *inputs);
        for (uint32_t u = 0, e = p->input_begin[n] - 1; u < n - 1; u++)
            if (u != inputs[e].i && u != inputs[p->input_begin[n - 1]].i) {
                inputs[e].i = u;
                break;
            }
        p->inputs = inputs;
        p->mode_count = 0;
        break;
    case 1:
        p->workspace = NULL;
        break;
    case 2:
        p->lasting = NULL;
        break;
    case 3:
        p->once = NULL;
        break;
    case 4:
        p->static_bytes = 0;
        break;
    case 5:
        p->alias = NULL;
        break;
    default:
        p->mode_count = 0;
    }
}

static bool is_caught(const struct sample *s, const struct remat_solution *plan)
{
    double time;
    uint64_t peak;
    return !plan->fits ||
           !plain_simulate(&s->problem, plan->sequence.items, plan->sequence.count, &time, &peak) ||
           peak > s->budget || time != s->best;
}

static void check_forgetting(struct test *t)
{
    uint32_t caught[sizeof rules / sizeof *rules] = {0};
    struct sample s;
    for (uint32_t i = 0; i < FAULTY; i++) {
        uint32_t rule = i % (sizeof rules / sizeof *rules);
        make_sample(t, true, &s);
        struct remat_problem_parts parts = s.parts;
        struct remat_solution plan;
        forget(t, rule, &parts);
        struct remat_problem wrong = make_from_parts(t, &parts);
        solve(t, &wrong, s.budget, &plan);
        caught[rule] += is_caught(&s, &plan);
        test_next(t);
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        printf("a planner that forgets %s: caught %u times\n", rules[i], caught[i]);
        CHECK(caught[i] > 0, "a planner that forgets %s passes", rules[i]);
    }
}

/* Bounds that claim too much: for a byte less, one tick more, without the fused groups. */
static void check_wrong_bounds(struct test *t)
{
    uint32_t less = 0, more = 0, unfused = 0;
    struct sample s;
    for (uint32_t i = 0; i < FAULTY; i++) {
        struct remat_schedule_bound bound;
        make_sample(t, true, &s);
        bound = remat_bound_time(&t->arena, &s.problem, s.budget - 1, 32, NULL);
        less += bound.time > s.best;
        bound = remat_bound_time(&t->arena, &s.problem, s.budget, 32, NULL);
        more += remat_bound_from_ticks(&s.problem, bound.ticks + 1) > s.best;
        s.parts.mode_count = 0;
        s.problem = make_from_parts(t, &s.parts);
        bound = remat_bound_time(&t->arena, &s.problem, s.budget, 32, NULL);
        unfused += bound.time > s.best;
        test_next(t);
    }
    printf("wrong bounds caught: for a byte less %u, a tick more %u, blind to other modes %u\n",
           less, more, unfused);
    CHECK(less && more && unfused, "a wrong bound passes");
}

/* With an argument: what needs few problems, for builds with sanitizers. */
int main(int argc, char **argv)
{
    struct test t;
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    test_begin(&t);
    if (!small)
        check_without_exhaustion(&t, all ? PADDED : PADDED / 4, !all);
    check_beside_idle(&t);
    if (!small) {
        t.random = 1; /* thresholds.txt has the figures of these problems */
        check_kind(&t, "bare", false, all ? BARE : BARE / 4, !all);
        check_kind(&t, "extended", true, all ? EXTENDED : EXTENDED / 4, !all);
    }
    check_forgetting(&t);
    check_wrong_bounds(&t);
    return test_end(&t);
}
