/* SPDX-License-Identifier: Apache-2.0 */
#include "beginning.h"

#include "options.h"
#include "settings.h"

static remat_status open_tokens(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args, uint32_t option,
                                const struct model *model, struct data *out)
{
    uint32_t count;
    const char *const *paths = cli_texts(arena, args, option, &count);
    return paths ? data_open_tokens(ctx, paths, count, model, out) : REMAT_ERROR_MEMORY;
}

static remat_status open_data(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct model *model,
                              struct data *out)
{
    bool named = cli_has(args, OPTION_text) || cli_has(args, OPTION_ids) ||
                 cli_has(args, OPTION_tokens) || cli_has(args, OPTION_eval_tokens);
    if (!model->batch)
        return named ? cli_error(ctx, REMAT_ERROR_USAGE,
                                 "the plan has no ids: all its inputs are given with --input")
                     : REMAT_OK;
    if (cli_has(args, OPTION_text))
        return data_open_text(ctx, cli_text(args, OPTION_text, NULL), model, out);
    if (cli_has(args, OPTION_ids))
        return data_draw(ctx, model, out);
    if (!cli_has(args, OPTION_tokens))
        return cli_error(ctx, REMAT_ERROR_USAGE, "--text is missing, or --tokens, or --ids");
    return open_tokens(ctx, arena, args, OPTION_tokens, model, out);
}

/* Of files of its own, or what is held out of the run's. */
static remat_status choose_eval_rows(remat_context *ctx, struct remat_arena *arena,
                                     const struct cli_arguments *args, const struct model *model,
                                     struct train_settings *settings, struct data *data)
{
    remat_status st = REMAT_OK;
    struct rows *rows = &settings->eval_rows;
    if (!cli_has(args, OPTION_eval_tokens))
        return rows_hold_out(ctx, settings->eval_steps * model->batch, &settings->rows, rows);
    RUN_TRY(open_tokens(ctx, arena, args, OPTION_eval_tokens, model, data));
    RUN_TRY(data_hash(ctx, data, &settings->eval_hash));
    *rows = data_rows(data);
    uint64_t whole = rows->count / model->batch;
    settings->eval_steps = whole < settings->eval_steps ? whole + !whole : settings->eval_steps;
fail:
    return st;
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
                                 struct beginning *from)
{
    remat_status st = REMAT_OK;
    uint32_t count;
    const char *const *named = cli_texts(arena, args, OPTION_init, &count);
    struct weights_files *files = &from->files;
    if (!named)
        return REMAT_ERROR_MEMORY;
    RUN_TRY(weights_files_find(ctx, arena, named, count, args->outputs, files));
    RUN_TRY(initial_weights_open(ctx, files->paths, files->count, plan, &from->weights));
fail:
    return st;
}

static remat_status open_inputs(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args, const struct model *model,
                                const char *const *entries, struct train_settings *settings,
                                struct given_inputs *out)
{
    remat_status st = REMAT_OK;
    uint32_t count;
    const char *const *options = cli_texts(arena, args, OPTION_input, &count);
    if (!options)
        return REMAT_ERROR_MEMORY;
    RUN_TRY(given_open(ctx, options, count, model, entries, args->outputs, out));
    RUN_TRY(given_hash(ctx, out, model->plan, &settings->input_hash));
fail:
    return st;
}

/* A step has as many microbatches as the run's, or they were given: none that remat-compile chose
 * anew change the bits unasked. */
static remat_status check_microbatches(remat_context *ctx, const struct model *model,
                                       const struct checkpoint *checkpoint)
{
    unsigned long long here = model->microbatches, there = checkpoint->state.microbatches;
    uint64_t dp = model->data_ranks;
    const char *mesh = model->mesh;
    char command[256];
    if (!there || there == here)
        return REMAT_OK;
    if (!*model->chosen_by) {
        cli_log(ctx, REMAT_SEVERITY_INFO,
                "the plan has a step's batch in %llu microbatches (of all ranks along dp), "
                "the checkpoint's run in %llu: from here on sums are rounded otherwise",
                here, there);
        return REMAT_OK;
    }
    if (there % dp)
        snprintf(command, sizeof command, "with a --mesh whose dp divides %llu, and --microbatches",
                 there);
    else
        snprintf(command, sizeof command, "%s%s%s--microbatches %llu", *mesh ? "--mesh " : "", mesh,
                 *mesh ? " " : "", there / dp);
    return cli_error(
        ctx, REMAT_ERROR_USAGE,
        "%s: the plan has a step's batch in %llu microbatches (of all ranks along dp), which "
        "%s chose, the checkpoint's run in %llu: remat-compile ... %s makes the plan to continue "
        "with; with --microbatches %llu typed the run goes on, and sums are rounded otherwise",
        checkpoint->path, here, model->chosen_by, there, command, here / dp);
}

/* What a run that goes on has as the one before it. */
struct same {
    const char *what, *symbol; /* NULL: it is none of the graph's */
    uint64_t here, there;
};

/* Whether the plan's symbol of that name, such as "batch", got its value by --bind. */
static bool is_bound(const remat_plan *plan, const char *symbol)
{
    const char *bindings = remat_plan_setting(plan, "bind");
    size_t length = strlen(symbol);
    for (const char *at = bindings; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, symbol, length) == 0 && at[length] == '=')
            return true;
    return false;
}

/* A size that the run has another one of. */
static remat_status fail_same(remat_context *ctx, const remat_plan *plan, const char *path,
                              const struct same *same)
{
    char hint[64] = "";
    unsigned long long here = same->here, there = same->there;
    if (same->symbol && is_bound(plan, same->symbol))
        snprintf(hint, sizeof hint, ": remat-compile ... --bind %s=%llu", same->symbol, there);
    return cli_error(ctx, REMAT_ERROR_USAGE, "%s: %s is %llu, of the checkpoint's run %llu%s", path,
                     same->what, here, there, hint);
}

/* The run that goes on is the one that was interrupted: same data, same random state. */
static remat_status resume(remat_context *ctx, const struct cli_arguments *args,
                           const struct model *model, struct train_settings *settings,
                           struct checkpoint *checkpoint)
{
    remat_status st = REMAT_OK;
    const struct checkpoint_state *state = &checkpoint->state;
    const char *folder = settings->resume;
    RUN_TRY(checkpoint_open(ctx, folder, model->plan, checkpoint));
    const uint64_t seed = cli_has(args, OPTION_seed) ? settings->seed : state->seed;
    const struct same same[] = {
        {"the plan's batch", "batch", model->batch, state->batch},
        {"the plan's sequence", "seq", model->seq, state->seq},
        {"the size of the data, without what --eval-every holds out for evaluation,", NULL,
         settings->rows.count, state->data_size},
        {"the hash of the data", NULL, settings->data_hash, state->data_hash},
        {"the hash of what --input gives", NULL, settings->input_hash, state->input_hash},
        {"--seed", NULL, seed, state->seed}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].here != same[i].there)
            return fail_same(ctx, model->plan, checkpoint->path, &same[i]);
    if (settings->repeatable ? state->step > settings->steps : state->step >= settings->steps)
        RUN_FAIL(ctx, REMAT_ERROR_USAGE, "--steps %llu: --resume %s begins after step %llu",
                 (unsigned long long)settings->steps, folder, (unsigned long long)state->step);
    if (settings->gradients_path && settings->gradients_step <= state->step)
        RUN_FAIL(
            ctx, REMAT_ERROR_USAGE, "--gradients-step %llu: --resume %s begins after step %llu",
            (unsigned long long)settings->gradients_step, folder, (unsigned long long)state->step);
    RUN_TRY(check_microbatches(ctx, model, checkpoint));
    settings->resumed = state->step;
    settings->seed = state->seed;
    settings_resume_schedule(ctx, args, &state->schedule, &settings->schedule);
fail:
    return st;
}

remat_status beginning_read(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args, struct train_settings *settings,
                            const remat_plan *plan, struct model *model, struct run_data *data,
                            struct beginning *from)
{
    remat_status st = REMAT_OK;
    const char *const entries[] = {settings->eval ? "eval" : "train",
                                   settings->eval_every ? "eval" : NULL, NULL};
    RUN_TRY(check_weights_files(ctx, args, plan));
    RUN_TRY(model_folder_check(ctx, &settings->folder, plan));
    RUN_TRY(model_inspect(ctx, plan, entries, model));
    RUN_TRY(open_inputs(ctx, arena, args, model, entries, settings, &from->given));
    RUN_TRY(open_data(ctx, arena, args, model, &data->train));
    RUN_TRY(data_hash(ctx, &data->train, &settings->data_hash));
    settings->rows = data_rows(&data->train);
    if (settings->eval_every && model->batch)
        RUN_TRY(choose_eval_rows(ctx, arena, args, model, settings, &data->eval));
    settings->rows.shuffled = !settings->eval;
    if (settings->repeatable && !checkpoint_is_there(settings->resume))
        settings->resume = NULL;
    if (settings->resume) {
        RUN_TRY(resume(ctx, args, model, settings, &from->checkpoint));
        settings->initial_path = NULL;
    }
    RUN_TRY(settings_check_schedule(ctx, args, &settings->schedule));
    settings->rows.seed = settings->seed;
    if (model->batch)
        RUN_TRY(rows_check(ctx, &settings->rows, settings->resumed * model->batch,
                           settings->steps * model->batch));
    if (settings->eval_every && model->batch)
        RUN_TRY(rows_check(ctx, &settings->eval_rows, 0, settings->eval_steps * model->batch));
    if (cli_has(args, OPTION_init) && !settings->resume)
        RUN_TRY(open_weights(ctx, arena, args, plan, from));
fail:
    return st;
}

remat_status beginning_write(remat_context *ctx, const struct beginning *from,
                             const remat_plan *plan, uint32_t rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    RUN_TRY(remat_session_run(session, "init"));
    RUN_TRY(given_write(ctx, &from->given, plan, rank, session));
    if (from->weights.count)
        RUN_TRY(initial_weights_write(ctx, &from->weights, rank, session));
    if (from->checkpoint.path)
        RUN_TRY(checkpoint_restore(ctx, &from->checkpoint, plan, rank, session));
fail:
    return st;
}

void beginning_release(struct beginning *from)
{
    given_release(&from->given);
    initial_weights_release(&from->weights);
    weights_files_release(&from->files);
    checkpoint_release(&from->checkpoint);
}
