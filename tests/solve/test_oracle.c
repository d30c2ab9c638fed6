/* Small random problems against an exhaustive search of the tests' own: the plan is an optimum and
 * the floor the least peak; the bound by cuts never exceeds the optimum, and annealing alone is
 * never below it. Prints how often and how close the last two are. */
#include "bound.h"
#include "floor.h"
#include "oracle.h"
#include "solve.h"
#include "support.h"

enum { PROBLEMS = 3000 };

struct tally {
    uint32_t costly, annealed, cut, cut_exact, floors;
    double excess, worst, cut_share;
};

/* The whole planner: for problems this small it proves its optimum. */
static void check_plan(struct test *t, const struct remat_problem *p, uint64_t budget, double best)
{
    struct remat_solution s;
    struct remat_solve_options options = {.effort = 0.02};
    remat_status st = remat_solve(&t->arena, p, &budget, 1, &options, &s);
    CHECK(t, st == REMAT_OK, "%s", remat_context_message(t->ctx));
    CHECK(t, s.fits, "no plan where one exists");
    CHECK(t, s.result.peak <= budget, "peak above the budget");
    CHECK(t, s.result.time == best, "time %g, optimum %g", s.result.time, best);
    CHECK(t, s.lower_bound <= best && s.lower_bound >= best * 0.9999, "bound %g, optimum %g",
          s.lower_bound, best);
    if (--budget >= 1) /* below the least peak nothing fits, elsewhere it takes no less time */
        CHECK(t, remat_solve(&t->arena, p, &budget, 1, &options, &s) == REMAT_OK, "solve");
    CHECK(t, !s.fits || s.result.time >= best, "faster with less");
}

static void check_bound(struct test *t, const struct remat_problem *p, uint64_t budget, double best,
                        struct tally *tally)
{
    struct remat_bound bound;
    remat_status st = remat_bound_time(&t->arena, p, budget, 32, NULL, &bound);
    CHECK(t, st == REMAT_OK, "%s", remat_context_message(t->ctx));
    CHECK(t, bound.time <= best, "bound %g above the optimum %g", bound.time, best);
    if (best == p->total_time)
        return;
    tally->costly++;
    tally->cut += bound.ticks > 0;
    tally->cut_exact += bound.time == best;
    tally->cut_share += (bound.time - p->total_time) / (best - p->total_time);
}

static void check_annealing(struct test *t, const struct remat_problem *p, uint64_t budget,
                            double best, struct tally *tally)
{
    struct remat_solution given;
    struct remat_sequence found;
    struct remat_simulation s;
    struct remat_search_options o = {
        .budget = budget, .moves = 10000, .seed = 1, .hot = 3e-3, .cold = 1e-6, .pressure = 10};
    CHECK(t, remat_solve_given_order(&t->arena, p, &given) == REMAT_OK, "given order");
    CHECK(t, remat_search(&t->arena, p, &given.sequence, &o, &found) == REMAT_OK, "search");
    CHECK(t, remat_simulate(t->ctx, p, found.items, found.count, &s) == REMAT_OK, "%s",
          remat_context_message(t->ctx));
    if (s.peak > budget)
        return;
    CHECK(t, s.time >= best, "time %g below the optimum %g: one of the two is wrong", s.time, best);
    tally->annealed += s.time == best;
    tally->excess += s.time / best - 1;
    tally->worst = s.time / best - 1 > tally->worst ? s.time / best - 1 : tally->worst;
}

static void check_floor(struct test *t, const struct remat_problem *p, uint64_t least,
                        struct tally *tally)
{
    struct remat_floor floor, hurried;
    remat_status st = remat_floor_find(&t->arena, p, 100000, NULL, &floor);
    CHECK(t, st == REMAT_OK, "%s", remat_context_message(t->ctx));
    st = remat_floor_find(&t->arena, p, draw(t, 0, 6), NULL, &hurried);
    CHECK(t, st == REMAT_OK, "%s", remat_context_message(t->ctx));
    CHECK(t, floor.bytes <= least, "floor %lu above the least peak %lu", (unsigned long)floor.bytes,
          (unsigned long)least);
    CHECK(t, hurried.bytes <= floor.bytes, "a hurried floor above the thorough one");
    CHECK(t, !hurried.exact || hurried.bytes == least, "a floor called exact is not");
    CHECK(t, floor.exact && floor.bytes == least, "floor %lu, least peak %lu",
          (unsigned long)floor.bytes, (unsigned long)least);
    tally->floors += floor.bytes == least;
}

int main(void)
{
    struct test t;
    struct tally tally = {0};
    test_begin(&t, "oracle");
    for (int i = 0; i < PROBLEMS; i++) {
        struct remat_problem p = random_problem(&t, draw(&t, 3, 7));
        struct remat_solution given;
        CHECK(&t, remat_solve_given_order(&t.arena, &p, &given) == REMAT_OK, "given order");
        uint32_t least = (uint32_t)oracle_peak(&p), peak = (uint32_t)given.result.peak;
        uint64_t budget = draw(&t, least, peak > least ? peak - 1 : peak);
        double best = (double)oracle_time(&p, budget);
        check_floor(&t, &p, least, &tally);
        check_plan(&t, &p, budget, best);
        check_bound(&t, &p, budget, best, &tally);
        check_annealing(&t, &p, budget, best, &tally);
        test_next(&t);
    }
    printf("annealing: %u of %d optimal, mean excess %.3f %%, worst %.1f %%; floor equal in %u\n",
           tally.annealed, PROBLEMS, 100 * tally.excess / PROBLEMS, 100 * tally.worst,
           tally.floors);
    printf(
        "%u cost time: bound by cuts above the sum in %u, equal to the optimum in %u, mean share "
        "%.2f\n",
        tally.costly, tally.cut, tally.cut_exact, tally.cut_share / (tally.costly + 1e-9));
    CHECK(&t, tally.annealed >= PROBLEMS * 96 / 100, "fewer than 96 %% optimal");
    return test_end(&t);
}
