/* SPDX-License-Identifier: Apache-2.0 */
/* Bare problems for a host: the solver's own entry points, with their results copied. */
#include "handle.h"
#include "solve.h"

#include <remat/solve.h>

#define FLOOR_WORK 4000000

struct remat_problem_solver {
    struct remat_handle handle;
    remat_problem_solver_info info;
    struct remat_problem problem;
};

struct remat_solved {
    struct remat_handle handle;
    remat_solved_info info;
    const uint32_t *runs;
    uint32_t run_count;
};

struct solve_job { /* arguments of a guarded call */
    remat_context *ctx;
    const remat_problem_spec *spec;
    remat_solve_settings settings;
    remat_problem_solver *solver;
    const uint64_t *budgets;
    uint32_t budget_count;
    remat_solved **out;
};

static bool is_cancelled(void *user)
{
    const remat_solve_settings *s = user;
    return s->is_cancelled && s->is_cancelled(s->user);
}

/* --- the problem --- */

static const remat_problem_node *nodes(const uint32_t *numbers)
{
    _Static_assert(sizeof(remat_problem_node) == sizeof *numbers, "a node is its number");
    return (const remat_problem_node *)numbers;
}

/* The checks that the problem's own cannot make: what they read is there. */
static remat_status check_spec(remat_context *ctx, const remat_problem_spec *s)
{
    const char *missing = s->node_count == 0                            ? NULL
                          : !s->time                                    ? "time"
                          : !s->bytes                                   ? "bytes"
                          : !s->input_begin                             ? "input_begin"
                          : !s->inputs && s->input_begin[s->node_count] ? "inputs"
                          : !s->modes && s->mode_count                  ? "modes"
                                                                        : NULL;
    if (missing)
        return remat_error(ctx, REMAT_ERROR_INVALID, "the problem has no array \"%s\"", missing);
    for (uint32_t v = 0; v < s->node_count; v++)
        if (s->input_begin[v] > s->input_begin[v + 1] || s->input_begin[0])
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "node %u: input_begin does not ascend from 0", v);
    return REMAT_OK;
}

static remat_status read_modes(remat_context *ctx, struct remat_arena *arena,
                               const remat_problem_spec *s, struct remat_mode **out)
{
    REMAT_NEW(arena, *out, s->mode_count);
    for (uint32_t w = 0; w < s->mode_count; w++) {
        const remat_problem_mode *mode = &s->modes[w];
        uint32_t count = mode->fused_end - mode->fused_begin;
        if (mode->fused_begin > mode->fused_end || mode->node >= s->node_count ||
            (count && !s->fused))
            return remat_error(ctx, REMAT_ERROR_INVALID, "mode %u is of no node or list", w);
        (*out)[w] = (struct remat_mode){.node = {mode->node},
                                        .time = mode->time,
                                        .workspace = mode->workspace_bytes,
                                        .fused = count ? nodes(s->fused) + mode->fused_begin : NULL,
                                        .fused_count = count};
    }
    return REMAT_OK;
}

static remat_status read_problem(remat_context *ctx, struct remat_arena *arena,
                                 const remat_problem_spec *s, struct remat_problem *out)
{
    struct remat_mode *modes;
    REMAT_CHECK(check_spec(ctx, s));
    REMAT_CHECK(read_modes(ctx, arena, s, &modes));
    const struct remat_problem_parts parts = {.node_count = s->node_count,
                                              .names = s->names,
                                              .time = s->time,
                                              .bytes = s->bytes,
                                              .input_begin = s->input_begin,
                                              .inputs = nodes(s->inputs),
                                              .static_bytes = s->static_bytes,
                                              .workspace = s->workspace_bytes,
                                              .lasting = s->lasting_bytes,
                                              .once = s->once,
                                              .alias = nodes(s->alias),
                                              .modes = modes,
                                              .mode_count = s->mode_count};
    return remat_problem_create(ctx, arena, &parts, out);
}

static remat_status prepare(void *user)
{
    struct solve_job *job = user;
    remat_problem_solver *solver = job->solver;
    struct remat_solution given;
    struct remat_deadline deadline = {.expired = is_cancelled, .user = &job->settings};
    REMAT_CHECK(read_problem(job->ctx, &solver->handle.arena, job->spec, &solver->problem));
    const struct remat_problem *p = &solver->problem;
    struct remat_arena *scratch = remat_scratch_open(job->ctx);
    REMAT_CHECK(remat_solve_given_order(scratch, p, &given));
    struct remat_floor floor =
        remat_floor_find(scratch, p, FLOOR_WORK / (p->node_count + 100), &deadline);
    solver->info = (remat_problem_solver_info){.struct_size = sizeof solver->info,
                                               .floor_bytes = floor.bytes,
                                               .floor_node = floor.node.i,
                                               .given_peak_bytes = given.result.peak,
                                               .cancelled = deadline.hit,
                                               .given_time = p->total_time,
                                               .least_time = p->least_time};
    remat_scratch_close(scratch);
    return REMAT_OK;
}

remat_status remat_problem_solver_create(remat_context *ctx, const remat_problem_spec *problem,
                                         const remat_solve_settings *settings,
                                         remat_problem_solver **out)
{
    remat_problem_solver *solver = *out = remat_handle_open(ctx, "solver", sizeof *solver);
    if (!solver)
        return REMAT_ERROR_MEMORY;
    remat_problem_spec spec;
    struct solve_job job = {.ctx = ctx, .spec = &spec, .solver = solver};
    remat_handle_take(problem, sizeof spec, &spec);
    remat_handle_take(settings, sizeof job.settings, &job.settings);
    remat_status st = remat_guard(ctx, prepare, &job);
    if (st != REMAT_OK)
        remat_problem_solver_destroy(out);
    return st;
}

void remat_problem_solver_destroy(remat_problem_solver **solver)
{
    remat_handle_close(*solver);
    *solver = NULL;
}

void remat_problem_solver_get_info(const remat_problem_solver *solver,
                                   remat_problem_solver_info *out)
{
    remat_handle_give(&solver->info, sizeof solver->info, out);
}

/* --- solutions --- */

static remat_solved_info describe(const remat_problem_solver *solver,
                                  const struct remat_solution *s)
{
    const remat_problem_solver_info *all = &solver->info;
    return (remat_solved_info){.struct_size = sizeof(remat_solved_info),
                               .fits = s->fits,
                               .impossible = s->impossible,
                               .peak_bytes = s->result.peak,
                               .floor_bytes = all->floor_bytes,
                               .floor_node = all->floor_node,
                               .given_peak_bytes = all->given_peak_bytes,
                               .time = s->result.time,
                               .given_time = all->given_time,
                               .lower_bound = s->lower_bound};
}

static void tell(void *user, uint32_t budget, const struct remat_solution *best)
{
    const struct solve_job *job = user;
    remat_solved_info info = describe(job->solver, best);
    job->settings.progress(job->settings.user, budget, &info);
}

static void keep(const remat_problem_solver *solver, const struct remat_solution *found,
                 bool cancelled, remat_solved *out)
{
    out->run_count = (uint32_t)found->sequence.count;
    out->runs =
        remat_copy(&out->handle.arena, found->sequence.items, out->run_count, sizeof *out->runs);
    out->info = describe(solver, found);
    out->info.cancelled = cancelled;
}

static remat_status solve(void *user)
{
    struct solve_job *job = user;
    const remat_solve_settings *s = &job->settings;
    const struct remat_problem *p = &job->solver->problem;
    struct remat_arena *scratch = remat_scratch_open(job->ctx);
    struct remat_solution *found;
    struct remat_deadline deadline = {.expired = is_cancelled, .user = &job->settings};
    const struct remat_solve_options options = {
        .effort = s->seconds > 0 ? remat_solve_effort(p, s->seconds) : s->effort,
        .deadline = &deadline,
        .progress = s->progress ? tell : NULL,
        .user = job};
    for (uint32_t i = 1; i < job->budget_count; i++)
        if (job->budgets[i] > job->budgets[i - 1])
            return remat_error(job->ctx, REMAT_ERROR_INVALID,
                               "budget %u is larger than the one before", i);
    REMAT_NEW(scratch, found, job->budget_count);
    REMAT_CHECK(remat_solve(scratch, p, job->budgets, job->budget_count, &options, found));
    for (uint32_t i = 0; i < job->budget_count; i++)
        keep(job->solver, &found[i], deadline.hit, job->out[i]);
    remat_scratch_close(scratch);
    return REMAT_OK;
}

static void destroy_all(remat_solved **solved, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        remat_solved_destroy(&solved[i]);
}

remat_status remat_problem_solver_solve(const remat_problem_solver *solver, remat_context *ctx,
                                        const remat_solve_settings *settings,
                                        const uint64_t *budgets, uint32_t budget_count,
                                        remat_solved **out)
{
    struct solve_job job = {.ctx = ctx,
                            .solver = (remat_problem_solver *)solver,
                            .budgets = budgets,
                            .budget_count = budget_count,
                            .out = out};
    remat_handle_take(settings, sizeof job.settings, &job.settings);
    remat_status st = remat_handle_check(ctx, solver, "solver");
    for (uint32_t i = 0; i < budget_count; i++) {
        out[i] = st == REMAT_OK ? remat_handle_open(ctx, "solution", sizeof **out) : NULL;
        st = out[i] ? st : REMAT_ERROR_MEMORY;
    }
    if (st == REMAT_OK)
        st = remat_guard(ctx, solve, &job);
    if (st != REMAT_OK)
        destroy_all(out, budget_count);
    return st;
}

remat_status remat_solved_create(remat_context *ctx, const remat_problem_spec *problem,
                                 const remat_solve_settings *settings, remat_solved **out)
{
    remat_problem_solver *solver;
    *out = NULL;
    REMAT_CHECK(remat_problem_solver_create(ctx, problem, settings, &solver));
    remat_status st =
        remat_problem_solver_solve(solver, ctx, settings, &settings->budget_bytes, 1, out);
    remat_problem_solver_destroy(&solver);
    return st;
}

void remat_solved_destroy(remat_solved **solved)
{
    remat_handle_close(*solved);
    *solved = NULL;
}

void remat_solved_get_info(const remat_solved *solved, remat_solved_info *out)
{
    remat_handle_give(&solved->info, sizeof solved->info, out);
}

const uint32_t *remat_solved_runs(const remat_solved *solved, uint32_t *out_count)
{
    *out_count = solved->run_count;
    return solved->runs;
}
