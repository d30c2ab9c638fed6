/* SPDX-License-Identifier: Apache-2.0 */
/* remat-run: trains a plan on a text or token files, through libremat's public headers. */
#include "agree.h"
#include "checkpoint.h"
#include "init.h"
#include "machine.h"
#include "tool.h"
#include "train.h"

#include <sys/stat.h>

#define CLI_OPTIONS "run.def"
#include "option_table.h"

static const struct cli_tool tool = {
    .name = "remat-run",
    .summary =
        "Trains a plan on a text or token files and reports predicted and measured memory and "
        "time.",
    .operands = "PLAN",
    .operand_kind = CLI_INPUT,
    .operands_min = 1,
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

/* A safetensors file begins with its header, which is written last. */
static remat_status check_seekable(remat_context *ctx, const struct cli_arguments *args,
                                   uint32_t option)
{
    const char *path = cli_text(args, option, NULL);
    struct stat info;
    if (!path || stat(path, &info) != 0 || !S_ISFIFO(info.st_mode))
        return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_IO, "--%s %s: a safetensors file cannot be written to a pipe",
                     options[option].name, path);
}

static remat_status check_source(remat_context *ctx, const struct cli_arguments *args)
{
    static const uint32_t sources[] = {OPTION_text, OPTION_tokens, OPTION_ids};
    const struct cli_option *given = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!cli_has(args, sources[i]))
            continue;
        if (given)
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --%s",
                             options[sources[i]].name, given->name);
        given = &options[sources[i]];
    }
    return given ? REMAT_OK
                 : cli_error(ctx, REMAT_ERROR_USAGE, "--text is missing, or --tokens, or --ids");
}

static remat_status read_settings(remat_context *ctx, const struct cli_arguments *args,
                                  struct train_settings *out)
{
    static const uint32_t training[] = {
        OPTION_lr,     OPTION_save_weights, OPTION_save_gradients, OPTION_gradients_step,
        OPTION_report, OPTION_checkpoint,   OPTION_every,          OPTION_resume};
    static const uint32_t beginning[] = {OPTION_init, OPTION_save_initial_weights};
    static const uint32_t weights[] = {OPTION_save_initial_weights, OPTION_save_weights,
                                       OPTION_save_gradients};
    remat_status st = REMAT_OK;
    *out = (struct train_settings){
        .steps = (uint64_t)cli_integer(args, OPTION_steps, 20),
        .gradients_step = (uint64_t)cli_integer(args, OPTION_gradients_step, 1),
        .seed = (uint64_t)cli_integer(args, OPTION_seed, 0),
        .every = (uint64_t)cli_integer(args, OPTION_every, 100),
        .checkpoint = cli_text(args, OPTION_checkpoint, NULL),
        .lr = (float)cli_number(args, OPTION_lr, 3e-4),
        .hash = cli_has(args, OPTION_hash),
        .json = cli_has(args, OPTION_json),
        .eval = cli_has(args, OPTION_eval),
        .gradients_path = cli_text(args, OPTION_save_gradients, NULL),
        .initial_path = cli_text(args, OPTION_save_initial_weights, NULL),
        .weights_path = cli_text(args, OPTION_save_weights, NULL),
        .outputs = args->outputs};
    RUN_TRY(check_source(ctx, args));
    for (size_t i = 0; out->eval && i < sizeof training / sizeof *training; i++)
        if (cli_has(args, training[i]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --eval",
                             options[training[i]].name);
    for (size_t i = 0; cli_has(args, OPTION_resume) && i < sizeof beginning / sizeof *beginning;
         i++)
        if (cli_has(args, beginning[i]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --resume",
                             options[beginning[i]].name);
    if (cli_has(args, OPTION_every) && !out->checkpoint)
        return cli_error(ctx, REMAT_ERROR_USAGE, "--every needs --checkpoint");
    if (cli_has(args, OPTION_gradients_step) && !out->gradients_path)
        return cli_error(ctx, REMAT_ERROR_USAGE, "--gradients-step needs --save-gradients");
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        RUN_TRY(check_seekable(ctx, args, weights[i]));
    if (out->gradients_step > out->steps)
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "--gradients-step %llu is out of range (accepted: 1..%llu)",
                         (unsigned long long)out->gradients_step, (unsigned long long)out->steps);
fail:
    return st;
}

/* Beside the plan: which algorithms cuBLASLt chose for it. */
static remat_status name_gemm_table(remat_context *ctx, const char *plan, char *out, size_t bytes)
{
    int length = snprintf(out, bytes, "%s.gemm.json", plan);
    return length < (int)bytes
               ? REMAT_OK
               : cli_error(ctx, REMAT_ERROR_USAGE, "%s: the name is too long", plan);
}

static uint64_t timeout_ns(const struct cli_arguments *args)
{
    return (uint64_t)(cli_number(args, OPTION_timeout, 600) * 1e9);
}

static remat_session_params session_params(const struct cli_arguments *args,
                                           const struct train_settings *settings,
                                           const remat_plan *plan, uint32_t rank)
{
    remat_session_params params;
    remat_plan_info info = {.struct_size = sizeof info};
    remat_session_params_init(&params);
    remat_plan_get_info(plan, &info);
    /* One for a GPU runs on the CPU only when the user says so. */
    params.device = cli_text(args, OPTION_device, *info.target_arch ? "cuda" : NULL);
    params.cuda_libraries = cli_text(args, OPTION_cuda_libraries, NULL);
    params.threads = (uint32_t)cli_integer(args, OPTION_threads, 0);
    params.seed = settings->seed;
    params.engine = ranks_engine(settings->ranks, rank);
    params.transfer_timeout_ns = timeout_ns(args);
    if (settings->ranks)
        params.device = ranks_device(settings->ranks);
    if (settings->ranks)
        params.ordinal = ranks_ordinal(settings->ranks, rank);
    if (settings->ranks && !params.threads)
        params.threads = ranks_cores(settings->ranks);
    if (settings->hash || settings->json || settings->gradients_path)
        params.trace_copies = 1u << REMAT_TENSOR_OUTPUT | 1u << REMAT_TENSOR_GRADIENT;
    return params;
}

/* A GPU's memory is held against by its session. */
static bool is_on_cpu(remat_context *ctx, const remat_plan *plan,
                      const remat_session_params *params)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    if (params->device)
        return strcmp(params->device, "cpu") == 0;
    return info.budget_bytes || remat_gpu_count(ctx, params->cuda_libraries) == 0;
}

/* Of several processes all look before one of them takes its memory: they meet in `agree`. */
static remat_status check_memory(remat_context *ctx, const struct cli_arguments *args,
                                 const struct train_settings *settings, const remat_plan *plan)
{
    remat_status st = REMAT_OK;
    const char remedy[] = "compile with a smaller --budget, or end what else runs there";
    remat_session_params params = session_params(args, settings, plan, 0);
    uint64_t each;
    if (!is_on_cpu(ctx, plan, &params))
        return REMAT_OK;
    params.device = "cpu";
    params.threads = params.threads ? params.threads : 1; /* how many fit is said by create */
    RUN_TRY(remat_session_memory_bytes(ctx, plan, &params, &each));
    struct free_memory left = machine_free_memory("");
    uint64_t shared = each * ranks_on_machine(settings->ranks);
    uint64_t own = each * ranks_here(settings->ranks);
    if (own > left.own_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY,
                 "the limit of this process's address space (ulimit -v) leaves %llu bytes, the "
                 "plan needs %llu: raise it, or compile with a smaller --budget",
                 (unsigned long long)left.own_bytes, (unsigned long long)own);
    if (shared > left.shared_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY,
                 "%s has %llu bytes of memory free, the plan needs %llu: %s", left.shared_by,
                 (unsigned long long)left.shared_bytes, (unsigned long long)shared, remedy);
fail:
    return st;
}

static remat_status create_session(remat_context *ctx, const struct cli_arguments *args,
                                   const struct train_settings *settings, const remat_plan *plan,
                                   uint32_t rank, remat_session **out)
{
    remat_status st = REMAT_OK;
    remat_session_params params = session_params(args, settings, plan, rank);
    remat_plan_info info = {.struct_size = sizeof info};
    char table[4096];
    remat_plan_get_info(plan, &info);
    RUN_TRY(name_gemm_table(ctx, args->operands[0], table, sizeof table));
    params.gemm_table = table;
    st = remat_session_create(ctx, plan, &params, out);
    if (st == REMAT_ERROR_IO && !cli_has(args, OPTION_device) && *info.target_arch)
        RUN_FAIL(ctx, st, "the plan is for %s: %s", info.target, remat_context_message(ctx));
fail:
    return st;
}

/* What a session begins with; zero-initialise. */
struct beginning {
    struct initial_weights weights;
    struct checkpoint checkpoint;
};

static void release_beginning(struct beginning *from)
{
    initial_weights_release(&from->weights);
    checkpoint_release(&from->checkpoint);
}

static remat_status begin_session(remat_context *ctx, const struct beginning *from,
                                  const remat_plan *plan, uint32_t rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    RUN_TRY(remat_session_run(session, "init"));
    if (from->weights.count)
        RUN_TRY(initial_weights_write(ctx, &from->weights, rank, session));
    if (from->checkpoint.path)
        RUN_TRY(checkpoint_restore(ctx, &from->checkpoint, plan, rank, session));
fail:
    return st;
}

/* The run that goes on is the one that was interrupted: same data, same random state. */
static remat_status resume(remat_context *ctx, const struct cli_arguments *args,
                           const struct model *model, struct train_settings *settings,
                           struct checkpoint *checkpoint)
{
    remat_status st = REMAT_OK;
    const struct checkpoint_state *state = &checkpoint->state;
    const char *folder = cli_text(args, OPTION_resume, NULL);
    RUN_TRY(checkpoint_open(ctx, folder, model->plan, checkpoint));
    const struct {
        const char *what;
        uint64_t here, there;
    } same[] = {{"the plan's batch", model->batch, state->batch},
                {"the plan's sequence", model->seq, state->seq},
                {"the size of the data", settings->rows.count, state->data_size},
                {"the hash of the data", settings->data_hash, state->data_hash},
                {"--seed", cli_has(args, OPTION_seed) ? settings->seed : state->seed, state->seed}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].here != same[i].there)
            RUN_FAIL(ctx, REMAT_ERROR_USAGE, "%s: %s is %llu, of the checkpoint's run %llu",
                     checkpoint->path, same[i].what, (unsigned long long)same[i].here,
                     (unsigned long long)same[i].there);
    if (state->step >= settings->steps)
        RUN_FAIL(ctx, REMAT_ERROR_USAGE, "--steps %llu: --resume %s begins after step %llu",
                 (unsigned long long)settings->steps, folder, (unsigned long long)state->step);
    if (settings->gradients_path && settings->gradients_step <= state->step)
        RUN_FAIL(
            ctx, REMAT_ERROR_USAGE, "--gradients-step %llu: --resume %s begins after step %llu",
            (unsigned long long)settings->gradients_step, folder, (unsigned long long)state->step);
    settings->resumed = state->step;
    settings->seed = state->seed;
fail:
    return st;
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
        st = st ? st : create_session(ctx, args, settings, model->plan, r, session);
        st = st ? st : begin_session(ctx, from, model->plan, r, *session);
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

static remat_status open_data(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct model *model,
                              struct data *out)
{
    uint32_t count;
    if (cli_has(args, OPTION_text))
        return data_open_text(ctx, cli_text(args, OPTION_text, NULL), model, out);
    if (cli_has(args, OPTION_ids))
        return data_draw(ctx, model, out);
    const char *const *paths = cli_texts(arena, args, OPTION_tokens, &count);
    return paths ? data_open_tokens(ctx, paths, count, model, out) : REMAT_ERROR_MEMORY;
}

static remat_status check_weights_files(remat_context *ctx, const struct cli_arguments *args,
                                        const remat_plan *plan)
{
    static const uint32_t outputs[] = {OPTION_save_initial_weights, OPTION_save_weights,
                                       OPTION_save_gradients};
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (cli_has(args, outputs[i]))
            RUN_TRY(safetensors_check(ctx, cli_text(args, outputs[i], NULL), plan,
                                      safetensors_is_parameter));
fail:
    return st;
}

static remat_status open_weights(remat_context *ctx, struct remat_arena *arena,
                                 const struct cli_arguments *args, const remat_plan *plan,
                                 struct initial_weights *out)
{
    uint32_t count;
    const char *const *paths = cli_texts(arena, args, OPTION_init, &count);
    return paths ? initial_weights_open(ctx, paths, count, plan, out) : REMAT_ERROR_MEMORY;
}

/* A process of another rank than 0. */
static remat_status follow(remat_context *ctx, const struct cli_arguments *args,
                           const struct model *model, const struct train_settings *settings,
                           const struct beginning *from, remat_session **session)
{
    remat_status st = REMAT_OK;
    uint64_t total_ns;
    struct measured measured = {0};
    struct records *records = ranks_records(settings->ranks, 0);
    bool traced = cli_has(args, OPTION_trace), profiled = cli_has(args, OPTION_profile);
    RUN_TRY(
        records_open(ctx, model->plan, ranks_first(settings->ranks), traced, profiled, records));
    RUN_TRY(create_session(ctx, args, settings, model->plan, 0, session));
    RUN_TRY(begin_session(ctx, from, model->plan, ranks_first(settings->ranks), *session));
    RUN_TRY(train_follow(ctx, model, settings, *session, ranks_peers(settings->ranks, 0), records,
                         &measured.steps, &total_ns));
    RUN_TRY(records_collect(ctx, settings->ranks, traced ? &records->trace : NULL,
                            profiled ? &records->profiler : NULL));
    measured.step_ns = measured.steps ? total_ns / measured.steps : 0;
    measured.device_bytes = remat_session_device_bytes(*session);
    measured.engine_bytes = ranks_engine_bytes(settings->ranks);
    report_measure_memory(&measured);
    RUN_TRY(ranks_measure(settings->ranks, &measured));
fail:
    return st == REMAT_OK || st == REMAT_ERROR_RANK_LOST
               ? st
               : cli_error(ctx, st, "rank %u: %s", ranks_first(settings->ranks),
                           remat_context_message(ctx));
}

static remat_status fail_not_finite(remat_context *ctx, const struct train_settings *settings,
                                    const struct measured *measured)
{
    char before[64] = "";
    if (measured->saved_step)
        snprintf(before, sizeof before, "; the last checkpoint is of step %llu in ",
                 (unsigned long long)measured->saved_step);
    return cli_error(ctx, REMAT_ERROR_NOT_FINITE, "step %llu: %s is not finite%s%s",
                     (unsigned long long)measured->last_step, measured->not_finite, before,
                     measured->saved_step ? settings->checkpoint : "");
}

/* What the run needs beside the plan. */
static remat_status read_inputs(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args, struct train_settings *settings,
                                const remat_plan *plan, struct model *model, struct data *data,
                                struct beginning *from)
{
    remat_status st = REMAT_OK;
    const char *const entries[] = {settings->eval ? "eval" : "train", NULL};
    RUN_TRY(check_weights_files(ctx, args, plan));
    RUN_TRY(model_inspect(ctx, plan, entries, model));
    RUN_TRY(open_data(ctx, arena, args, model, data));
    RUN_TRY(data_hash(ctx, data, &settings->data_hash));
    settings->rows = data_rows(data);
    settings->rows.shuffled = !settings->eval;
    if (cli_has(args, OPTION_resume))
        RUN_TRY(resume(ctx, args, model, settings, &from->checkpoint));
    settings->rows.seed = settings->seed;
    RUN_TRY(rows_check(ctx, &settings->rows, settings->resumed * model->batch,
                       settings->steps * model->batch));
    if (cli_has(args, OPTION_init))
        RUN_TRY(open_weights(ctx, arena, args, plan, &from->weights));
fail:
    return st;
}

static struct measured describe(const struct ranks *ranks, const remat_session *session)
{
    struct measured out = {.threads = remat_session_threads(session),
                           .device = remat_session_device(session),
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
                         struct beginning *from, remat_session **session)
{
    remat_status st = REMAT_OK;
    struct chrome_trace trace = {0};
    struct profiler profiler = {0};
    struct measured measured;
    const remat_plan *plan = model->plan;
    if (settings->checkpoint)
        RUN_TRY(checkpoint_prepare(ctx, settings->checkpoint, cli_text(args, OPTION_resume, NULL),
                                   plan));
    if (cli_has(args, OPTION_trace)) {
        RUN_TRY(chrome_trace_open(args->outputs, cli_text(args, OPTION_trace, NULL),
                                  settings->ranks ? ranks_count(settings->ranks) : 1, &trace));
        settings->trace = &trace;
    }
    if (cli_has(args, OPTION_profile)) {
        RUN_TRY(profiler_open(ctx, plan, &profiler));
        settings->profiler = &profiler;
    }
    RUN_TRY(create_session(ctx, args, settings, plan, 0, session));
    measured = describe(settings->ranks, *session);
    RUN_TRY(begin_session(ctx, from, plan, 0, *session));
    RUN_TRY(start_ranks(args, settings, model, from));
    release_beginning(from);
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
    if (measured.not_finite)
        RUN_TRY(fail_not_finite(ctx, settings, &measured));
fail:
    profiler_release(&profiler);
    return st;
}

/* Of several ranks none has ended before the files are in place and all know it. */
static remat_status end(remat_context *ctx, const struct cli_arguments *args, struct ranks *ranks,
                        remat_status st)
{
    remat_status finished = REMAT_OK;
    if (st == REMAT_OK || st == REMAT_ERROR_NOT_FINITE)
        finished = cli_finish(ctx, args);
    st = finished ? finished : st;
    RUN_TRY(st);
    RUN_TRY(ranks_end(ranks));
    if (ranks_first(ranks) == 0)
        cli_log(ctx, REMAT_SEVERITY_INFO, "all %u ranks have finished", ranks_count(ranks));
fail:
    return st;
}

static remat_status run(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    remat_plan *plan = NULL;
    remat_session *session = NULL;
    struct train_settings settings = {0};
    struct model model;
    struct data data = {0};
    struct beginning from = {0};
    RUN_TRY(read_settings(ctx, args, &settings));
    RUN_TRY(remat_plan_load_file(ctx, args->operands[0], &plan));
    RUN_TRY(read_inputs(ctx, arena, args, &settings, plan, &model, &data, &from));
    const struct ranks_wish wish = {cli_text(args, OPTION_device, NULL),
                                    cli_text(args, OPTION_engine, NULL),
                                    cli_text(args, OPTION_cuda_libraries, NULL), timeout_ns(args)};
    RUN_TRY(ranks_open(ctx, plan, &wish, &settings.ranks));
    RUN_TRY(check_memory(ctx, args, &settings, plan));
    RUN_TRY(agree(ctx, settings.ranks, args->operands[0], &settings));
    if (ranks_first(settings.ranks) > 0)
        st = follow(ctx, args, &model, &settings, &from, &session);
    else
        st = lead(ctx, args, &model, &settings, &from, &session);
    if (settings.ranks)
        st = end(ctx, args, settings.ranks, st);
fail:
    release_beginning(&from);
    data_release(&data);
    ranks_leave(settings.ranks, st);
    remat_session_destroy(&session);
    ranks_close(&settings.ranks);
    remat_plan_destroy(&plan);
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, run);
}
