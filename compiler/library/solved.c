/* SPDX-License-Identifier: Apache-2.0 */
/* Bare problems for a host: the solver's own entry points, with their results copied. */
#include "handle.h"
#include "solve.h"

#include <remat/solve.h>

#define FLOOR_WORK 4000000 /* as of remat-solve */

struct remat_solved {
    struct remat_handle handle;
    remat_solved_info info;
    const uint32_t *runs;
    uint32_t run_count;
};

struct solve_job { /* arguments of a guarded call */
    const remat_problem_spec *spec;
    const remat_solve_settings *settings;
    remat_solved *solved;
};

static bool is_cancelled(void *user)
{
    const remat_solve_settings *s = user;
    return s->is_cancelled && s->is_cancelled(s->user);
}

static const remat_problem_node *nodes(const uint32_t *numbers)
{
    _Static_assert(sizeof(remat_problem_node) == sizeof *numbers, "a node is its number");
    return (const remat_problem_node *)numbers;
}

/* The checks that the problem's own cannot make: what they read is there. */
static remat_status read_modes(remat_context *ctx, struct remat_arena *arena,
                               const remat_problem_spec *s, struct remat_mode **out)
{
    REMAT_NEW(arena, *out, s->mode_count);
    for (uint32_t w = 0; w < s->mode_count; w++) {
        const remat_problem_mode *mode = &s->modes[w];
        if (mode->fused_begin > mode->fused_end || mode->node >= s->node_count)
            return remat_error(ctx, REMAT_ERROR_INVALID, "mode %u is of no node or list", w);
        (*out)[w] = (struct remat_mode){.node = {mode->node},
                                        .time = mode->time,
                                        .workspace = mode->workspace_bytes,
                                        .fused = nodes(s->fused) + mode->fused_begin,
                                        .fused_count = mode->fused_end - mode->fused_begin};
    }
    return REMAT_OK;
}

static remat_status make(void *user)
{
    struct solve_job *job = user;
    remat_solved *solved = job->solved;
    const remat_problem_spec *s = job->spec;
    remat_context *ctx = solved->handle.ctx;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct remat_mode *modes;
    struct remat_problem problem;
    struct remat_solution given, found;
    struct remat_deadline deadline = {.expired = is_cancelled, .user = (void *)job->settings};
    REMAT_CHECK(read_modes(ctx, scratch, s, &modes));
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
    REMAT_CHECK(remat_problem_create(ctx, scratch, &parts, &problem));
    REMAT_CHECK(remat_solve_given_order(scratch, &problem, &given));
    struct remat_floor floor =
        remat_floor_find(scratch, &problem, FLOOR_WORK / (s->node_count + 100), &deadline);
    const struct remat_solve_options options = {.effort = job->settings->effort,
                                                .deadline = &deadline};
    REMAT_CHECK(remat_solve(scratch, &problem, &job->settings->budget_bytes, 1, &options, &found));
    solved->run_count = (uint32_t)found.sequence.count;
    solved->runs = remat_copy(&solved->handle.arena, found.sequence.items, solved->run_count,
                              sizeof *solved->runs);
    solved->info = (remat_solved_info){.struct_size = sizeof solved->info,
                                       .fits = found.fits,
                                       .impossible = found.impossible,
                                       .cancelled = deadline.hit,
                                       .peak_bytes = found.result.peak,
                                       .floor_bytes = floor.bytes,
                                       .floor_node = floor.node.i,
                                       .given_peak_bytes = given.result.peak,
                                       .time = found.result.time,
                                       .given_time = problem.total_time,
                                       .lower_bound = found.lower_bound};
    remat_scratch_close(scratch);
    return REMAT_OK;
}

remat_status remat_solved_create(remat_context *ctx, const remat_problem_spec *problem,
                                 const remat_solve_settings *settings, remat_solved **out)
{
    remat_solved *solved = *out = remat_handle_open(ctx, sizeof *solved);
    if (!solved)
        return REMAT_ERROR_MEMORY;
    struct solve_job job = {problem, settings, solved};
    remat_status st = remat_guard(ctx, make, &job);
    if (st != REMAT_OK)
        remat_solved_destroy(out);
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
