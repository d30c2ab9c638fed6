/* SPDX-License-Identifier: Apache-2.0 */
/* remat-solve: the fastest way to run a graph within a memory budget. */
#include "cli.h"
#include "interrupt.h"
#include "problem_json.h"
#include "report.h"
#include "size.h"
#include "tool.h"
#include "unwind.h"
#include "watch.h"

#define CLI_OPTIONS "solve.def"
#include "option_table.h"

static const struct cli_tool tool = {
    .name = "remat-solve",
    .summary = "Plans a problem without a graph file: which nodes to recompute, and when.",
    .operands = "PROBLEM",
    .operand_help = "a file of JSON (docs/problems.md); -: standard input",
    .operand_kind = CLI_INPUT,
    .operands_min = 1,
    .operands_max = 1,
    .examples = {{"half of the memory of the given order", "remat-solve problem.json --budget 50%"},
                 {"a longer search, of a problem from standard input",
                  "generate | remat-solve - --budget 8GiB --time-limit 10s"},
                 {"time against budget", "remat-solve problem.json --curve -o curve.svg"}},
    .options = options,
    .option_count = OPTION_COUNT,
};

enum { CURVE_POINTS = 20 };
#define CURVE_EFFORT 0.25 /* at each point */

/* --- while the planner works --- */

struct solve_watch {
    struct cli_watch clock;
    remat_problem_solver_info problem; /* once it is known */
    uint32_t budget, count;
    remat_solved_info best;
};

static void tell(void *user, double elapsed)
{
    const struct solve_watch *w = user;
    double total = w->problem.given_time > 0 ? w->problem.given_time : 1;
    double bound = w->best.lower_bound, least = bound > 0 ? bound : w->problem.least_time;
    fprintf(stderr, "remat-solve: %.0f s", elapsed);
    if (w->count > 1)
        fprintf(stderr, ", budget %u of %u", w->budget + 1, w->count);
    if (w->best.fits)
        fprintf(stderr, ": overhead %.4g %%", 100 * (w->best.time / total - 1));
    else
        fprintf(stderr, ": no plan yet");
    if (w->problem.struct_size)
        fprintf(stderr, ", at least %.4g %%", 100 * (least / total - 1));
    if (w->best.fits)
        fprintf(stderr, ", gap %.4g %%", bound > 0 ? 100 * (w->best.time / bound - 1) : 0);
    fprintf(stderr, "\n");
}

static void on_progress(void *user, uint32_t budget, const remat_solved_info *best)
{
    struct solve_watch *w = user;
    w->budget = budget;
    w->best = *best;
}

static bool is_over(void *user)
{
    return cli_watch_over(&((struct solve_watch *)user)->clock);
}

/* Budgets in equal steps from the peak of the given order down to the floor. */
static remat_status make_budgets(remat_context *ctx, struct remat_arena *arena,
                                 const struct cli_arguments *args, struct solve_report *r)
{
    remat_status st = REMAT_OK;
    uint64_t *budgets, low = r->problem.floor_bytes, high = r->problem.given_peak_bytes;
    bool curve = cli_has(args, OPTION_curve);
    r->count = curve && low < high ? CURVE_POINTS : 1;
    REMAT_NEW(arena, budgets, r->count);
    for (uint32_t i = 0; i + 1 < r->count; i++)
        budgets[i] = high - (high - low) / (r->count - 1) * i;
    if (curve)
        budgets[r->count - 1] = low;
    else
        REMAT_TRY(cli_size(ctx, args, OPTION_budget, high ? high : 1, budgets));
    r->budgets = budgets;
fail:
    return st;
}

static void read_solutions(struct remat_arena *arena, remat_solved *const *solved,
                           struct solve_report *r)
{
    struct solve_solution *solutions;
    bool cancelled = r->problem.cancelled;
    REMAT_NEW(arena, solutions, r->count);
    for (uint32_t i = 0; i < r->count; i++) {
        solutions[i].info.struct_size = sizeof solutions[i].info;
        remat_solved_get_info(solved[i], &solutions[i].info);
        solutions[i].runs = remat_solved_runs(solved[i], &solutions[i].run_count);
        cancelled |= solutions[i].info.cancelled;
    }
    r->solutions = solutions;
    r->interrupted = cli_interrupted();
    r->time_limit_hit = cancelled && !r->interrupted;
}

struct solving { /* arguments of a guarded call */
    remat_context *ctx;
    struct remat_arena *arena;
    const struct cli_arguments *args;
    struct solve_report report;
    remat_problem_solver *solver;
    remat_solved **solved; /* report.count */
};

/* Chooses budgets and solves for them. */
static remat_status plan(struct solving *s)
{
    remat_status st = REMAT_OK;
    remat_context *ctx = s->ctx;
    struct solve_report *r = &s->report;
    const char *limit = cli_text(s->args, OPTION_time_limit, NULL);
    struct solve_watch watch = {.clock = {.tell = tell, .user = &watch}};
    remat_solve_settings settings = {.struct_size = sizeof settings,
                                     .effort = 1,
                                     .is_cancelled = is_over,
                                     .user = &watch,
                                     .progress = on_progress};
    r->problem.struct_size = sizeof r->problem;
    REMAT_TRY(cli_watch_start(ctx, limit, &watch.clock));
    REMAT_TRY(remat_problem_solver_create(ctx, r->spec, &settings, &s->solver));
    remat_problem_solver_get_info(s->solver, &r->problem);
    watch.problem = r->problem;
    REMAT_TRY(make_budgets(ctx, s->arena, s->args, r));
    watch.count = r->count;
    if (limit)
        settings.seconds = watch.clock.limit / r->count;
    else if (r->count > 1)
        settings.effort = CURVE_EFFORT;
    REMAT_NEW(s->arena, s->solved, r->count);
    REMAT_TRY(
        remat_problem_solver_solve(s->solver, ctx, &settings, r->budgets, r->count, s->solved));
    read_solutions(s->arena, s->solved, r);
fail:
    cli_release_interrupts();
    return st;
}

static remat_status fail_without_plan(remat_context *ctx, const struct solve_report *r)
{
    uint64_t budget = r->budgets[0], floor = r->problem.floor_bytes;
    struct remat_unit_text asked = remat_exact_text(budget), least = remat_exact_text(floor);
    struct remat_unit_text found = remat_exact_text(r->solutions[0].info.peak_bytes);
    if (budget < floor)
        return remat_error(
            ctx, REMAT_ERROR_INFEASIBLE,
            "no schedule fits in %s: node %u alone takes %s; the smallest peak found "
            "is %s",
            asked.text, r->problem.floor_node, least.text, found.text);
    if (r->solutions[0].info.impossible)
        return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                           "no schedule fits in %s, as all of them show; the smallest peak found "
                           "is %s",
                           asked.text, found.text);
    if (r->time_limit_hit || r->interrupted)
        return remat_error(
            ctx, REMAT_ERROR_CUT_SHORT,
            "the search was ended before it found a schedule within %s; the smallest "
            "peak found is %s, and %s is the least that could be possible",
            asked.text, found.text, least.text);
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                       "no schedule found within %s, which does not prove that there is none: the "
                       "smallest peak found is %s, and %s is the least that could be possible",
                       asked.text, found.text, least.text);
}

static enum report_format format_of(const struct cli_arguments *args)
{
    const char *ending = strrchr(cli_text(args, OPTION_output, ""), '.');
    enum report_format format = REPORT_JSON;
    if (ending && strcmp(ending, ".csv") == 0)
        format = REPORT_CSV;
    if (ending && strcmp(ending, ".svg") == 0)
        format = REPORT_SVG;
    return cli_choice(args, OPTION_format, format);
}

static remat_status check_options(remat_context *ctx, const struct cli_arguments *args)
{
    bool curve = cli_has(args, OPTION_curve);
    if (curve == cli_has(args, OPTION_budget))
        return remat_error(
            ctx, REMAT_ERROR_USAGE,
            curve ? "--curve and --budget exclude each other: the curve has budgets of its own"
                  : "--budget is missing (or --curve, which does without)");
    if (!curve && cli_has(args, OPTION_format))
        return remat_error(ctx, REMAT_ERROR_USAGE, "--format needs --curve");
    return REMAT_OK;
}

static remat_status write_report(const struct solving *s)
{
    struct remat_text text = {.arena = s->arena};
    bool curve = cli_has(s->args, OPTION_curve);
    if (!curve)
        report_decision(&text, &s->report);
    else
        report_curve(&text, &s->report, format_of(s->args));
    remat_text_complete(&text);
    REMAT_CHECK(cli_write(s->ctx, s->args, OPTION_output, text.items, text.count));
    return curve || s->report.solutions[0].info.fits ? REMAT_OK
                                                     : fail_without_plan(s->ctx, &s->report);
}

static remat_status solve_and_report(void *user)
{
    struct solving *s = user;
    remat_status st = plan(s);
    if (st == REMAT_ERROR_INVALID)
        st = problem_json_fail(s->ctx, s->arena, s->args->operands[0]);
    return st == REMAT_OK ? write_report(s) : st;
}

static remat_status solve(remat_context *ctx, struct remat_arena *arena,
                          const struct cli_arguments *args)
{
    remat_problem_spec problem;
    struct solving s = {ctx, arena, args, .report.spec = &problem};
    REMAT_CHECK(check_options(ctx, args));
    REMAT_CHECK(problem_json_read(ctx, arena, args->operands[0], &problem));
    remat_status st = remat_guard(ctx, solve_and_report, &s);
    for (uint32_t i = 0; s.solved && i < s.report.count; i++)
        remat_solved_destroy(&s.solved[i]);
    remat_problem_solver_destroy(&s.solver);
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, solve);
}
