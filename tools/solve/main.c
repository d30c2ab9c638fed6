/* SPDX-License-Identifier: Apache-2.0 */
/* remat-solve: the fastest way to run a graph within a memory budget. */
#include "cli.h"
#include "interrupt.h"
#include "problem_json.h"
#include "report.h"
#include "size.h"
#include "tool.h"
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

enum { CURVE_POINTS = 20, FLOOR_WORK = 4000000 };
#define CURVE_EFFORT 0.25 /* at each point */

/* --- while the planner works --- */

struct solve_watch {
    struct cli_watch clock;
    const struct remat_problem *problem;
    uint32_t budget, count;
    bool fits;
    double time, lower_bound;
};

static void tell(void *user, double elapsed)
{
    const struct solve_watch *w = user;
    double total = w->problem->total_time > 0 ? w->problem->total_time : 1;
    fprintf(stderr, "remat-solve: %.0f s", elapsed);
    if (w->count > 1)
        fprintf(stderr, ", budget %u of %u", w->budget + 1, w->count);
    if (w->fits)
        fprintf(stderr, ": overhead %.4g %%", 100 * (w->time / total - 1));
    else
        fprintf(stderr, ": no plan yet");
    fprintf(stderr, ", at least %.4g %%", 100 * (w->lower_bound / total - 1));
    if (w->fits)
        fprintf(stderr, ", gap %.4g %%",
                w->lower_bound > 0 ? 100 * (w->time / w->lower_bound - 1) : 0);
    fprintf(stderr, "\n");
}

static void on_progress(void *user, uint32_t budget, const struct remat_solution *best)
{
    struct solve_watch *w = user;
    w->budget = budget;
    w->fits = best->fits;
    w->time = best->result.time;
    w->lower_bound = best->lower_bound;
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
    uint64_t *budgets, low = r->floor.bytes, high = r->given_peak;
    bool curve = cli_has(args, OPTION_curve);
    r->count = curve && low < high ? CURVE_POINTS : 1;
    REMAT_NEW(arena, budgets, r->count);
    for (uint32_t i = 0; i + 1 < r->count; i++)
        budgets[i] = high - (high - low) / (r->count - 1) * i;
    if (curve)
        budgets[r->count - 1] = low;
    else
        REMAT_TRY(cli_size(ctx, args, OPTION_budget, r->given_peak ? r->given_peak : 1, budgets));
    r->budgets = budgets;
fail:
    return st;
}

static remat_status plan(remat_context *ctx, struct remat_arena *arena,
                         const struct cli_arguments *args, const struct remat_problem *p,
                         struct solve_report *r)
{
    remat_status st = REMAT_OK;
    struct remat_solution given, *solutions;
    const char *limit = cli_text(args, OPTION_time_limit, NULL);
    double effort = 1;
    struct solve_watch watch = {
        .clock = {.tell = tell, .user = &watch}, .problem = p, .lower_bound = p->least_time};
    struct remat_deadline deadline = {.expired = is_over, .user = &watch};
    REMAT_TRY(cli_watch_start(ctx, limit, &watch.clock));
    *r = (struct solve_report){.problem = p};
    REMAT_TRY(remat_solve_given_order(arena, p, &given));
    r->given_peak = given.result.peak;
    r->floor = remat_floor_find(arena, p, FLOOR_WORK / (p->node_count + 100), &deadline);
    REMAT_TRY(make_budgets(ctx, arena, args, r));
    REMAT_NEW(arena, solutions, r->count);
    if (limit)
        effort = remat_solve_effort(p, watch.clock.limit / r->count);
    else if (r->count > 1)
        effort = CURVE_EFFORT;
    watch.count = r->count;
    struct remat_solve_options o = {
        .effort = effort, .deadline = &deadline, .progress = on_progress, .user = &watch};
    REMAT_TRY(remat_solve(arena, p, r->budgets, r->count, &o, solutions));
    r->solutions = solutions;
    r->interrupted = cli_interrupted();
    r->time_limit_hit = deadline.hit && !r->interrupted;
fail:
    cli_release_interrupts();
    return st;
}

static remat_status fail_without_plan(remat_context *ctx, const struct solve_report *r)
{
    uint64_t budget = r->budgets[0], floor = r->floor.bytes;
    struct cli_buffer asked = cli_exact(budget), least = cli_exact(floor);
    struct cli_buffer found = cli_exact(r->solutions[0].result.peak);
    if (budget < floor)
        return remat_error(
            ctx, REMAT_ERROR_INFEASIBLE,
            "no schedule fits in %s: node %u alone takes %s; the smallest peak found "
            "is %s",
            asked.text, r->floor.node.i, least.text, found.text);
    if (r->solutions[0].impossible)
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

static remat_status solve(remat_context *ctx, struct remat_arena *arena,
                          const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_problem problem;
    struct solve_report report;
    struct remat_text text = {.arena = arena};
    bool curve = cli_has(args, OPTION_curve);
    if (curve == cli_has(args, OPTION_budget))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   curve
                       ? "--curve and --budget exclude each other: the curve has budgets of its own"
                       : "--budget is missing (or --curve, which does without)");
    if (!curve && cli_has(args, OPTION_format))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--format needs --curve");
    REMAT_TRY(problem_json_read(ctx, arena, args->operands[0], &problem));
    REMAT_TRY(plan(ctx, arena, args, &problem, &report));
    if (!curve)
        report_decision(&text, &report);
    else
        report_curve(&text, &report, format_of(args));
    remat_text_complete(&text);
    REMAT_TRY(cli_write(ctx, args, OPTION_output, text.items, text.count));
    if (!curve && !report.solutions[0].fits)
        return fail_without_plan(ctx, &report);
fail:
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, solve);
}
