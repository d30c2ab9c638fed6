/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "checkpoint.h"
#include "options.h"
#include "progress.h"
#include "size.h"

#include <sys/stat.h>

/* A safetensors file begins with its header, which is written last. */
static remat_status check_seekable(remat_context *ctx, const struct cli_arguments *args,
                                   uint32_t option)
{
    const char *path = cli_text(args, option, NULL);
    struct stat info;
    if (!path || stat(path, &info) != 0 || !S_ISFIFO(info.st_mode))
        return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_IO, "--%s %s: a safetensors file cannot be written to a pipe",
                     args->tool->options[option].name, path);
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
                             args->tool->options[sources[i]].name, given->name);
        given = &args->tool->options[sources[i]];
    }
    return REMAT_OK;
}

static remat_status check_needs(remat_context *ctx, const struct cli_arguments *args)
{
    static const uint32_t needs[][2] = {{OPTION_every, OPTION_checkpoint},
                                        {OPTION_gradients_step, OPTION_save_gradients},
                                        {OPTION_eval_steps, OPTION_eval_every},
                                        {OPTION_eval_tokens, OPTION_eval_every}};
    static const uint32_t training[] = {
        OPTION_lr,          OPTION_schedule,     OPTION_warmup,         OPTION_min_lr,
        OPTION_decay_steps, OPTION_save_weights, OPTION_save_gradients, OPTION_gradients_step,
        OPTION_report,      OPTION_checkpoint,   OPTION_every,          OPTION_resume,
        OPTION_log,         OPTION_eval_every,   OPTION_eval_steps,     OPTION_eval_tokens};
    const struct cli_option *options = args->tool->options;
    for (size_t i = 0; cli_has(args, OPTION_eval) && i < sizeof training / sizeof *training; i++)
        if (cli_has(args, training[i]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --eval",
                             options[training[i]].name);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (cli_has(args, needs[i][0]) && !cli_has(args, needs[i][1]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s needs --%s", options[needs[i][0]].name,
                             options[needs[i][1]].name);
    return REMAT_OK;
}

static remat_status claim_weights(remat_context *ctx, const struct cli_arguments *args,
                                  struct train_settings *settings)
{
    static const char label[] = "--save-weights";
    if (!model_folder_is_meant(settings->weights_path))
        return remat_outputs_claim(args->outputs, label, settings->weights_path);
    remat_status st =
        model_folder_claim(ctx, args->outputs, label, settings->weights_path, &settings->folder);
    settings->weights_path = settings->folder.weights;
    return st;
}

/* No output takes the place of a checkpoint, or of the folder that is made for them. */
static remat_status check_checkpoints(remat_context *ctx, const struct cli_arguments *args,
                                      const struct train_settings *s)
{
    static const uint32_t outputs[] = {OPTION_save_weights,   OPTION_save_initial_weights,
                                       OPTION_save_gradients, OPTION_log,
                                       OPTION_report,         OPTION_profile,
                                       OPTION_trace};
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        char label[32];
        const char *path = cli_text(args, outputs[i], NULL);
        path = outputs[i] == OPTION_save_weights ? s->weights_path : path;
        snprintf(label, sizeof label, "--%s", args->tool->options[outputs[i]].name);
        RUN_TRY(checkpoint_check_output(ctx, "--checkpoint", s->checkpoint, label, path));
        RUN_TRY(checkpoint_check_output(ctx, "--resume", s->resume, label, path));
    }
fail:
    return st;
}

static remat_status read_stop(remat_context *ctx, const struct cli_arguments *args,
                              struct train_settings *out)
{
    double seconds = 0;
    uint64_t now = clock_ns();
    out->stop_after = cli_text(args, OPTION_stop_after, NULL);
    remat_status st = out->stop_after
                          ? remat_duration_parse(ctx, "--stop-after", out->stop_after, &seconds)
                          : REMAT_OK;
    out->stop_ns = out->stop_after ? now + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    return st;
}

remat_status settings_read(remat_context *ctx, const struct cli_arguments *args,
                           struct train_settings *out)
{
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
        .schedule = {.kind = (enum schedule_kind)cli_choice(args, OPTION_schedule, 0),
                     .lr = cli_number(args, OPTION_lr, 3e-4),
                     .min_lr = cli_number(args, OPTION_min_lr, 0),
                     .warmup = (uint64_t)cli_integer(args, OPTION_warmup, 0)},
        .resume = cli_text(args, OPTION_resume, NULL),
        .eval_every = (uint64_t)cli_integer(args, OPTION_eval_every, 0),
        .eval_steps = (uint64_t)cli_integer(args, OPTION_eval_steps, 20),
        .log_path = cli_text(args, OPTION_log, NULL),
        .hash = cli_has(args, OPTION_hash),
        .json = cli_has(args, OPTION_json),
        .eval = cli_has(args, OPTION_eval),
        .gradients_path = cli_text(args, OPTION_save_gradients, NULL),
        .initial_path = cli_text(args, OPTION_save_initial_weights, NULL),
        .weights_path = cli_text(args, OPTION_save_weights, NULL),
        .outputs = args->outputs};
    out->schedule.steps = (uint64_t)cli_integer(args, OPTION_decay_steps, (int64_t)out->steps);
    RUN_TRY(read_stop(ctx, args, out));
    RUN_TRY(check_source(ctx, args));
    out->repeatable = out->resume && out->checkpoint && strcmp(out->resume, out->checkpoint) == 0;
    for (size_t i = 0; i < sizeof beginning / sizeof *beginning; i++)
        if (out->resume && !out->repeatable && cli_has(args, beginning[i]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --resume",
                             args->tool->options[beginning[i]].name);
    RUN_TRY(check_needs(ctx, args));
    if (out->weights_path)
        RUN_TRY(claim_weights(ctx, args, out));
    if (out->log_path)
        RUN_TRY(remat_outputs_claim(args->outputs, "--log", out->log_path));
    RUN_TRY(check_checkpoints(ctx, args, out));
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        RUN_TRY(check_seekable(ctx, args, weights[i]));
    if (out->gradients_step > out->steps)
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "--gradients-step %llu is out of range (accepted: 1..%llu)",
                         (unsigned long long)out->gradients_step, (unsigned long long)out->steps);
fail:
    return st;
}

remat_status settings_check_schedule(remat_context *ctx, const struct cli_arguments *args,
                                     const struct schedule *s)
{
    static const uint32_t of_a_fall[] = {OPTION_min_lr, OPTION_decay_steps};
    bool falls = s->kind != SCHEDULE_CONSTANT;
    for (size_t i = 0; !falls && i < sizeof of_a_fall / sizeof *of_a_fall; i++)
        if (cli_has(args, of_a_fall[i]))
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s needs --schedule linear or cosine",
                             args->tool->options[of_a_fall[i]].name);
    if (falls && s->min_lr > s->lr)
        return cli_error(ctx, REMAT_ERROR_USAGE, "--min-lr %g is above --lr %g", s->min_lr, s->lr);
    if (falls && s->warmup >= s->steps)
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "--warmup %llu leaves none of %llu steps for the fall (--decay-steps)",
                         (unsigned long long)s->warmup, (unsigned long long)s->steps);
    return REMAT_OK;
}

void settings_resume_schedule(remat_context *ctx, const struct cli_arguments *args,
                              const struct schedule *before, struct schedule *now)
{
    struct schedule merged = *before;
    merged.kind = cli_has(args, OPTION_schedule) ? now->kind : before->kind;
    merged.lr = cli_has(args, OPTION_lr) ? now->lr : before->lr;
    merged.min_lr = cli_has(args, OPTION_min_lr) ? now->min_lr : before->min_lr;
    merged.warmup = cli_has(args, OPTION_warmup) ? now->warmup : before->warmup;
    merged.steps = cli_has(args, OPTION_decay_steps) ? now->steps : before->steps;
    *now = merged;
    if (now->kind != before->kind || now->lr != before->lr || now->min_lr != before->min_lr ||
        now->warmup != before->warmup || now->steps != before->steps)
        cli_log(ctx, REMAT_SEVERITY_INFO,
                "the learning rate is no longer that of the checkpoint's run, %s %g",
                schedule_name(before->kind), before->lr);
}

uint64_t settings_timeout_ns(const struct cli_arguments *args)
{
    return (uint64_t)(cli_number(args, OPTION_timeout, 600) * 1e9);
}
