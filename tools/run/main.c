/* SPDX-License-Identifier: Apache-2.0 */
/* remat-run: trains a plan on a text or token files, through libremat's public headers. */
#include "agree.h"
#include "beginning.h"
#include "machine.h"
#include "measure_device.h"
#include "options.h"
#include "sessions.h"
#include "settings.h"
#include "tool.h"
#include "train.h"

#include <unistd.h>

static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "run.def"
#undef OPTION
};
static const struct cli_tool tool = {
    .name = "remat-run",
    .summary =
        "Trains a plan on a text or token files and reports predicted and measured memory and "
        "time.",
    .operands = "PLAN",
    .operand_help = "a file that remat-compile wrote; --measure-device needs none",
    .operand_kind = CLI_INPUT,
    .operands_min = 0, /* --measure-device has none */
    .operands_max = 1,
    .examples = {{"twenty steps", "remat-run model.plan --text FILE --steps 20 --lr 3e-4"},
                 {"the bits of every step, for comparison with another plan",
                  "remat-run model.plan --text FILE --steps 3 --hash --json"},
                 {"initial weights and gradients, to compare with PyTorch",
                  "remat-run model.plan --text FILE --save-initial-weights w0.safetensors "
                  "--save-gradients g.safetensors"}},
    .options = options,
    .option_count = OPTION_COUNT,
};

/* Neither ends a run: bits are the same with any number of threads. */
static void note_threads(remat_context *ctx, const remat_plan *plan, const remat_session *session)
{
    uint32_t threads = remat_session_threads(session), cores = machine_cores();
    const char *predicted = remat_plan_setting(plan, "threads");
    if (strcmp(remat_session_device(session), "cpu") != 0)
        return;
    if (predicted && strtoul(predicted, NULL, 10) != threads)
        cli_log(ctx, REMAT_SEVERITY_WARNING,
                "the plan's times are predicted for --threads %s, this run has %" PRIu32, predicted,
                threads);
    if (threads > cores)
        cli_log(ctx, REMAT_SEVERITY_WARNING,
                "%" PRIu32 " threads share %" PRIu32 " core%s: --threads %" PRIu32 " is faster",
                threads, cores, cores == 1 ? "" : "s", cores);
}

/* Sessions of the other ranks, with the same parameters, and their threads. */
static remat_status start_ranks(const struct cli_arguments *args,
                                const struct train_settings *settings, const struct model *model,
                                const struct beginning *from)
{
    remat_status st = REMAT_OK;
    struct ranks *ranks = settings->ranks;
    for (uint32_t r = 1; r < ranks_here(ranks); r++) {
        remat_context *ctx = ranks_context(ranks, r);
        remat_session **session = ranks_session(ranks, r);
        st = records_open(ctx, model->plan, r, cli_has(args, OPTION_trace),
                          cli_has(args, OPTION_profile), ranks_records(ranks, r));
        st = st ? st : sessions_create(ctx, args, settings, model->plan, r, session);
        st = st ? st : beginning_write(ctx, from, model->plan, r, *session);
        if (st)
            return cli_error(ranks_context(ranks, 0), st, "rank %u: %s", r,
                             remat_context_message(ctx));
    }
    return ranks ? ranks_start(ranks, model, settings) : REMAT_OK;
}

/* The steps on all ranks. */
static remat_status train_ranks(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, remat_session *session,
                                struct measured *measured)
{
    remat_status st = train_save_initial(ctx, model, settings, session);
    st = st ? st : train(ctx, model, settings, session, measured);
    if (settings->ranks)
        st = st ? st : ranks_order(settings->ranks, RANKS_END);
    st = st ? st : train_save_weights(ctx, model, settings, session, measured);
    return settings->ranks ? ranks_finish(settings->ranks, st) : st;
}

static remat_status finish(remat_context *ctx, const struct cli_arguments *args,
                           const remat_plan *plan, const struct train_settings *settings,
                           struct measured *measured)
{
    remat_status st = REMAT_OK;
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    if (settings->gradients_path && measured->last_step < settings->gradients_step)
        cli_log(ctx, REMAT_SEVERITY_WARNING, "%s is not written: step %llu was not reached",
                settings->gradients_path, (unsigned long long)settings->gradients_step);
    if (measured->steps > 2 && measured->device_bytes > measured->settled_device_bytes)
        cli_log(ctx, REMAT_SEVERITY_WARNING,
                "the GPU has %llu bytes in use after step 2 and %llu after step %llu: this process "
                "or another takes more and more",
                (unsigned long long)measured->settled_device_bytes,
                (unsigned long long)measured->device_bytes, (unsigned long long)measured->steps);
    report_measure_memory(measured);
    if (settings->ranks)
        RUN_TRY(ranks_measure(settings->ranks, measured));
    measured->completed = measured->last_step == settings->steps && !measured->not_finite;
    if (!settings->eval)
        report_print(settings->json ? stderr : stdout, &info, measured);
    if (cli_has(args, OPTION_report))
        RUN_TRY(
            report_write(ctx, args->outputs, cli_text(args, OPTION_report, NULL), &info, measured));
fail:
    return st;
}

/* A process of another rank than 0. */
static remat_status follow(remat_context *ctx, const struct cli_arguments *args,
                           const struct model *model, const struct train_settings *settings,
                           const struct beginning *from, remat_session **session, bool *completed)
{
    remat_status st = REMAT_OK;
    uint64_t total_ns;
    struct measured measured = {0};
    struct records *records = ranks_records(settings->ranks, 0);
    bool traced = cli_has(args, OPTION_trace), profiled = cli_has(args, OPTION_profile);
    RUN_TRY(
        records_open(ctx, model->plan, ranks_first(settings->ranks), traced, profiled, records));
    RUN_TRY(sessions_create(ctx, args, settings, model->plan, 0, session));
    RUN_TRY(beginning_write(ctx, from, model->plan, ranks_first(settings->ranks), *session));
    RUN_TRY(train_follow(ctx, model, settings, *session, ranks_peers(settings->ranks, 0), records,
                         &measured.steps, &total_ns));
    RUN_TRY(records_collect(ctx, settings->ranks, traced ? &records->trace : NULL,
                            profiled ? &records->profiler : NULL));
    measured.step_ns = measured.steps ? total_ns / measured.steps : 0;
    measured.device_bytes = remat_session_device_bytes(*session);
    measured.engine_bytes = ranks_engine_bytes(settings->ranks);
    report_measure_memory(&measured);
    RUN_TRY(ranks_measure(settings->ranks, &measured));
    *completed = settings->resumed + measured.steps == settings->steps;
fail:
    return st == REMAT_OK || st == REMAT_ERROR_RANK_LOST
               ? st
               : cli_error(ctx, st, "rank %u: %s", ranks_first(settings->ranks),
                           remat_context_message(ctx));
}

static remat_status fail_not_finite(remat_context *ctx, const struct measured *measured)
{
    if (!measured->saved_step)
        return cli_error(ctx, REMAT_ERROR_NOT_FINITE, "step %" PRIu64 ": %s is not finite",
                         measured->last_step, measured->not_finite);
    return cli_error(ctx, REMAT_ERROR_NOT_FINITE,
                     "step %" PRIu64 ": %s is not finite; the last good checkpoint is "
                     "%s/" CHECKPOINT_NAME,
                     measured->last_step, measured->not_finite, measured->saved_in,
                     measured->saved_step);
}

static struct measured describe(const struct train_settings *settings, const remat_session *session)
{
    const struct ranks *ranks = settings->ranks;
    struct measured out = {.threads = remat_session_threads(session),
                           .device = remat_session_device(session),
                           .last_step = settings->resumed,
                           .saved_step = settings->resumed,
                           .saved_in = settings->resume,
                           .ranks_here = ranks_here(ranks),
                           .ranks_together = ranks_together(ranks),
                           .engine_name = ranks_engine_name(ranks)};
    if (ranks) {
        out.place = ranks_place(ranks);
        out.engine_bytes = ranks_engine_bytes(ranks);
    }
    return out;
}

/* Rank 0, or the only one. */
static remat_status lead(remat_context *ctx, const struct cli_arguments *args,
                         const struct model *model, struct train_settings *settings,
                         struct beginning *from, remat_session **session, bool *completed)
{
    remat_status st = REMAT_OK;
    struct chrome_trace trace = {0};
    struct profiler profiler = {0};
    struct measured measured;
    const remat_plan *plan = model->plan;
    int lock = -1;
    if (settings->checkpoint)
        RUN_TRY(checkpoint_prepare(ctx, settings->checkpoint, settings->resume, plan, &lock));
    if (cli_has(args, OPTION_trace)) {
        RUN_TRY(chrome_trace_open(args->outputs, cli_text(args, OPTION_trace, NULL),
                                  settings->ranks ? ranks_count(settings->ranks) : 1, &trace));
        settings->trace = &trace;
    }
    if (cli_has(args, OPTION_profile)) {
        RUN_TRY(profiler_open(ctx, plan, &profiler));
        settings->profiler = &profiler;
    }
    RUN_TRY(sessions_create(ctx, args, settings, plan, 0, session));
    note_threads(ctx, plan, *session);
    measured = describe(settings, *session);
    RUN_TRY(beginning_write(ctx, from, plan, 0, *session));
    RUN_TRY(start_ranks(args, settings, model, from));
    beginning_release(from);
    RUN_TRY(train_ranks(ctx, model, settings, *session, &measured));
    if (settings->ranks)
        RUN_TRY(records_collect(ctx, settings->ranks, settings->trace, settings->profiler));
    if (settings->trace)
        RUN_TRY(chrome_trace_close(ctx, &trace));
    if (settings->profiler)
        RUN_TRY(profiler_write(ctx, args->outputs, settings->profiler,
                               cli_text(args, OPTION_profile, NULL), *session));
    measured.device_bytes = remat_session_device_bytes(*session);
    RUN_TRY(finish(ctx, args, plan, settings, &measured));
    *completed = measured.completed;
    if (measured.not_finite)
        RUN_TRY(fail_not_finite(ctx, &measured));
fail:
    profiler_release(&profiler);
    if (lock >= 0)
        close(lock);
    return st;
}

/* Of several ranks none has ended before the files are in place and all know it. */
static remat_status end(remat_context *ctx, const struct cli_arguments *args, struct ranks *ranks,
                        bool completed, remat_status st)
{
    remat_status finished = REMAT_OK;
    if (st == REMAT_OK || st == REMAT_ERROR_NOT_FINITE)
        finished = cli_finish(ctx, args);
    st = finished ? finished : st;
    RUN_TRY(st);
    RUN_TRY(ranks_end(ranks));
    if (ranks_first(ranks) == 0 && completed)
        cli_log(ctx, REMAT_SEVERITY_INFO, "all %u ranks have finished", ranks_count(ranks));
fail:
    return st;
}

/* Before anything else is read or made. */
static remat_status load(remat_context *ctx, const char *path, remat_plan **out)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_status st = remat_plan_load_file(ctx, path, out);
    if (st)
        return st;
    remat_plan_get_info(*out, &info);
    if (*info.plan_only)
        return cli_error(ctx, REMAT_ERROR_PLAN_ONLY,
                         "%s only shows memory and time: it leaves out a part of its model, %s",
                         path, info.plan_only);
    return REMAT_OK;
}

static remat_status run(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    remat_plan *plan = NULL;
    remat_session *session = NULL;
    struct train_settings settings = {0};
    struct model model;
    struct run_data data = {0};
    struct beginning from = {0};
    bool completed = false;
    if (cli_has(args, OPTION_measure_device))
        return measure_device(ctx, args);
    if (args->operand_count == 0)
        return cli_error(ctx, REMAT_ERROR_USAGE, "PLAN is missing");
    RUN_TRY(settings_read(ctx, args, &settings));
    RUN_TRY(load(ctx, args->operands[0], &plan));
    RUN_TRY(beginning_read(ctx, arena, args, &settings, plan, &model, &data, &from));
    const struct ranks_wish wish = {
        cli_text(args, OPTION_device, NULL), cli_text(args, OPTION_engine, NULL),
        cli_text(args, OPTION_cuda_libraries, NULL), settings_timeout_ns(args)};
    RUN_TRY(ranks_open(ctx, plan, &wish, &settings.ranks));
    RUN_TRY(agree(ctx, args, &settings, &from));
    RUN_TRY(ranks_connect(settings.ranks, plan));
    RUN_TRY(sessions_check_memory(ctx, args, &settings, plan));
    RUN_TRY(agree(ctx, args, &settings, &from)); /* as NCCL has connected them; all have memory */
    if (ranks_first(settings.ranks) > 0)
        st = follow(ctx, args, &model, &settings, &from, &session, &completed);
    else
        st = lead(ctx, args, &model, &settings, &from, &session, &completed);
    if (settings.ranks)
        st = end(ctx, args, settings.ranks, completed, st);
    if (!completed)
        cli_end_early();
fail:
    beginning_release(&from);
    data_release(&data.train);
    data_release(&data.eval);
    ranks_leave(settings.ranks, st);
    ranks_watch_exit(settings.ranks, st);
    remat_session_destroy(&session);
    ranks_close(&settings.ranks);
    remat_plan_destroy(&plan);
    if (st)
        model_folder_abandon(&settings.folder);
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, run);
}
