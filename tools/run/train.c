/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include "checkpoint.h"
#include "feed.h"
#include "interrupt.h"
#include "line.h"
#include "progress.h"
#include "step_log.h"
#include "tool.h"

#include <math.h>
#include <signal.h>
#include <time.h>

/* Mean of the losses of settings->eval_steps batches, the same each time, without dropout. All
 * ranks call it, and get the same mean. Nothing is traced. */
static remat_status evaluate(const struct train_settings *settings, const struct feed *feed,
                             double *mean)
{
    remat_status st = REMAT_OK;
    double total = 0;
    float loss;
    remat_session_set_trace(feed->session, NULL, NULL);
    for (uint64_t step = 1; step <= settings->eval_steps; step++) {
        const struct step_inputs in = {step, settings->seed, 0};
        RUN_TRY(feed_write(feed, &settings->eval_rows, &in));
        RUN_TRY(remat_session_run(feed->session, "eval"));
        RUN_TRY(remat_session_read(feed->session, "loss", &loss, sizeof loss));
        total += (double)loss;
    }
    *mean = total / (double)settings->eval_steps;
fail:
    return st;
}

struct step_result {
    uint64_t step, ns; /* step counted from 1 */
    float loss, lr;
    bool evaluated;
    double eval_loss;
    int32_t flag; /* 1: a gradient is not finite */
    double tokens_per_s;
    struct step_hashes hashes;
};

static remat_status write_inputs(const struct feed *feed, const struct train_settings *settings,
                                 struct step_result *result)
{
    result->lr = schedule_lr(&settings->schedule, result->step);
    const struct step_inputs in = {result->step, settings->seed, result->lr};
    return feed_write(feed, &settings->rows, &in);
}

static const char a_gradient[] = "a gradient";

/* NULL: all is finite. */
static const char *find_not_finite(const struct step_result *result)
{
    if (!isfinite(result->loss))
        return "the loss";
    if (result->evaluated && !isfinite(result->eval_loss))
        return "the loss of the evaluation";
    return result->flag ? a_gradient : NULL;
}

/* Loss and flag after a step, equal on all ranks. */
static remat_status read_result(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, const struct peers *peers,
                                remat_session *session, struct step_result *result)
{
    remat_status st = REMAT_OK;
    RUN_TRY(remat_session_read(session, "loss", &result->loss, sizeof result->loss));
    if (!model->has_flag || settings->eval)
        return REMAT_OK;
    RUN_TRY(remat_session_read(session, "not_finite", &result->flag, sizeof result->flag));
    if (model->has_parts) {
        bool flag = result->flag;
        RUN_TRY(peers_any(ctx, peers, "not_finite", result->step, &flag));
        result->flag = flag;
    }
fail:
    return st;
}

static remat_status run_step(struct run_recorder *recorder, const struct model *model,
                             const struct train_settings *settings, remat_session *session,
                             struct step_result *result)
{
    remat_status st = REMAT_OK;
    struct safetensors gradients = {0};
    bool save = settings->gradients_path && result->step == settings->gradients_step;
    if (save) {
        RUN_TRY(safetensors_open(recorder->ctx, settings->outputs, settings->gradients_path,
                                 model->plan, safetensors_is_parameter, NULL, &gradients));
        recorder->gradients = &gradients;
    }
    uint64_t begin = clock_ns();
    recorder->begin_ns = begin - recorder->origin_ns;
    RUN_TRY(recorder_run(recorder, session, settings->eval ? "eval" : "train"));
    result->ns = clock_ns() - begin - recorder->spent_ns;
    result->tokens_per_s = (double)model_step_tokens(model) * 1e9 / (double)(result->ns + 1);
    result->hashes = recorder->hashes;
    RUN_TRY(read_result(recorder->ctx, model, settings, &recorder->peers, session, result));
    if (save) {
        RUN_TRY(safetensors_add_accumulators(recorder->ctx, &gradients, model->plan, session,
                                             &recorder->peers));
        RUN_TRY(safetensors_close(recorder->ctx, &gradients));
    }
fail:
    recorder->gradients = NULL;
    safetensors_abandon(&gradients);
    return st;
}

struct number_text {
    char text[32];
};
/* JSON has no infinities. */
static struct number_text json_number(double value)
{
    struct number_text out = {"null"};
    if (isfinite(value))
        snprintf(out.text, sizeof out.text, "%.9g", value);
    return out;
}

/* ,"eval_loss":X where there was an evaluation. */
static struct number_text json_eval_loss(const struct step_result *result)
{
    struct number_text out = {""};
    if (result->evaluated)
        snprintf(out.text, sizeof out.text, ",\"eval_loss\":%.18s",
                 json_number(result->eval_loss).text);
    return out;
}

static void print_json(const struct step_result *result)
{
    printf("{\"step\":%" PRIu64 ",\"loss\":%s%s,\"tokens_per_s\":%.3f,\"step_ns\":%" PRIu64
           ",\"loss_hash\":\"%016" PRIx64 "\",\"grad_hash\":\"%016" PRIx64 "\"}\n",
           result->step, json_number((double)result->loss).text, json_eval_loss(result).text,
           result->tokens_per_s, result->ns, result->hashes.loss, result->hashes.grad);
}

static remat_status log_step(remat_context *ctx, const struct step_log *log,
                             const struct model *model, const struct step_result *result)
{
    char line[STEP_LOG_LINE_BYTES];
    struct timespec now;
    if (log->file < 0)
        return REMAT_OK;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(line, sizeof line,
             "{\"step\":%" PRIu64 ",\"loss\":%s%s,\"lr\":%.7g,\"tokens\":%" PRIu64
             ",\"tokens_per_s\":%.3f,\"step_ns\":%" PRIu64 ",\"unix_s\":%lld.%03ld}\n",
             result->step, json_number((double)result->loss).text, json_eval_loss(result).text,
             (double)result->lr, result->step * model_step_tokens(model), result->tokens_per_s,
             result->ns, (long long)now.tv_sec, now.tv_nsec / 1000000);
    return step_log_add(ctx, log, line);
}

static void print_text(const struct train_settings *settings, const struct step_result *result)
{
    printf("step %" PRIu64 " loss %.4f", result->step, (double)result->loss);
    if (result->evaluated)
        printf(" eval_loss %.4f", result->eval_loss);
    if (settings->hash)
        printf(" loss_hash %016" PRIx64 " grad_hash %016" PRIx64, result->hashes.loss,
               result->hashes.grad);
    printf("\n");
}

static void print_step(const struct train_settings *settings, struct step_progress *progress,
                       const struct step_result *result)
{
    cli_line_hide();
    if (settings->json)
        print_json(result);
    else
        print_text(settings, result);
    fflush(stdout);
    if (result->step < settings->steps)
        progress_update(progress, result->step, result->loss, result->tokens_per_s, result->ns);
    else
        cli_line_end();
}

static struct step_progress begin_progress(const remat_plan *plan,
                                           const struct train_settings *settings,
                                           const struct measured *measured)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    return (struct step_progress){.begin = settings->resumed,
                                  .end = settings->steps,
                                  .model_ns = settings->eval ? 0 : report_model_ns(&info, measured),
                                  .stop_ns = settings->stop_ns};
}

static bool is_hashed(const struct train_settings *settings)
{
    return settings->hash || settings->json;
}

static bool has_evaluation(const struct train_settings *settings, uint64_t step)
{
    return settings->eval_every && (step % settings->eval_every == 0 || step == settings->steps);
}

static bool has_checkpoint(const struct train_settings *settings, uint64_t step)
{
    return settings->checkpoint && (step % settings->every == 0 || step == settings->steps);
}

static struct checkpoint_state state_of(const struct model *model,
                                        const struct train_settings *settings, uint64_t step)
{
    return (struct checkpoint_state){.step = step,
                                     .seed = settings->seed,
                                     .batch = model->batch,
                                     .seq = model->seq,
                                     .data_hash = settings->data_hash,
                                     .input_hash = settings->input_hash,
                                     .microbatches = model->microbatches,
                                     .data_size = settings->rows.count,
                                     .schedule = settings->schedule};
}

/* Nothing that is not finite is saved: the run ends instead. */
static remat_status save_checkpoint(remat_context *ctx, const struct model *model,
                                    const struct train_settings *settings, remat_session *session,
                                    struct measured *measured)
{
    remat_status st = REMAT_OK;
    bool finite;
    const struct checkpoint_state state = state_of(model, settings, measured->last_step);
    const struct peers peers = ranks_peers(settings->ranks, 0);
    if (measured->not_finite)
        return REMAT_OK;
    if (checkpoint_has_parts(model->plan)) /* the others have theirs */
        RUN_TRY(ranks_order(settings->ranks, RANKS_SAVE));
    RUN_TRY(safetensors_check_weights(ctx, model->plan, session, &peers, &finite));
    if (!finite)
        measured->not_finite = "a parameter";
    else
        RUN_TRY(checkpoint_write(ctx, settings->checkpoint, model->plan, session, &peers, &state));
    measured->saved_step = finite ? state.step : measured->saved_step;
    measured->saved_in = finite ? settings->checkpoint : measured->saved_in;
fail:
    return st;
}

remat_status train_save_initial(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, remat_session *session)
{
    const struct peers peers = ranks_peers(settings->ranks, 0);
    return settings->initial_path
               ? safetensors_save_weights(ctx, settings->outputs, settings->initial_path,
                                          model->plan, session, &peers)
               : REMAT_OK;
}

/* What the last update made of them no loss tells. */
remat_status train_save_weights(remat_context *ctx, const struct model *model,
                                const struct train_settings *settings, remat_session *session,
                                struct measured *measured)
{
    remat_status st = REMAT_OK;
    bool finite;
    const struct peers peers = ranks_peers(settings->ranks, 0);
    if (!settings->weights_path || measured->not_finite)
        return REMAT_OK;
    RUN_TRY(safetensors_check_weights(ctx, model->plan, session, &peers, &finite));
    if (!finite) {
        measured->not_finite = "a parameter";
        return REMAT_OK;
    }
    RUN_TRY(safetensors_save_weights(ctx, settings->outputs, settings->weights_path, model->plan,
                                     session, &peers));
    if (settings->folder.path)
        RUN_TRY(model_folder_write_config(ctx, settings->outputs, &settings->folder, model->plan));
fail:
    return st;
}

static bool output_failed(void)
{
    return ferror(stdout) && !cli_hung_up();
}

static bool is_interrupted(const struct train_settings *settings)
{
    return ranks_interrupted(settings->ranks) || output_failed();
}

static bool must_stop(const struct train_settings *settings)
{
    return is_interrupted(settings) || clock_ns() >= settings->stop_ns;
}

static void tell_of_stop(remat_context *ctx, const struct train_settings *settings, uint64_t step)
{
    if (is_interrupted(settings))
        cli_log(ctx, REMAT_SEVERITY_INFO, "interrupted after step %" PRIu64 " of %" PRIu64, step,
                settings->steps);
    else
        cli_log(ctx, REMAT_SEVERITY_INFO,
                "stopped after step %" PRIu64 " of %" PRIu64 " (--stop-after %s)", step,
                settings->steps, settings->stop_after);
}

/* Runs a step, and an evaluation if it is due. */
static remat_status lead_step(struct run_recorder *recorder, const struct feed *feed,
                              const struct train_settings *settings, struct step_result *result)
{
    remat_status st = REMAT_OK;
    struct ranks *ranks = settings->ranks;
    if (ranks) {
        RUN_TRY(ranks_order(ranks, RANKS_STEP));
        recorder->origin_ns = ranks_begin_ns(ranks);
    }
    RUN_TRY(write_inputs(feed, settings, result));
    RUN_TRY(run_step(recorder, feed->model, settings, feed->session, result));
    if (find_not_finite(result) || !has_evaluation(settings, result->step))
        return REMAT_OK;
    if (ranks)
        RUN_TRY(ranks_order(ranks, RANKS_EVALUATE));
    RUN_TRY(evaluate(settings, feed, &result->eval_loss));
    result->evaluated = true;
fail:
    return st;
}

remat_status train(remat_context *ctx, const struct model *model,
                   const struct train_settings *settings, remat_session *session,
                   struct measured *measured)
{
    remat_status st = REMAT_OK;
    struct run_recorder recorder = {0};
    struct feed feed = {0};
    struct step_log log = {-1, NULL};
    struct step_progress progress = begin_progress(model->plan, settings, measured);
    uint64_t total_ns = 0;
    double total_loss = 0;
    cli_catch_interrupts();
    bool stop = must_stop(settings);
    signal(SIGPIPE, SIG_IGN); /* what was trained is worth more than the lines about it */
    progress_start(&progress);
    RUN_TRY(feed_open(ctx, model, session, &feed));
    RUN_TRY(recorder_open(ctx, model->plan, ranks_peers(settings->ranks, 0), &recorder));
    RUN_TRY(step_log_open(ctx, settings->log_path, settings->resumed, &log));
    recorder.hashing = is_hashed(settings);
    recorder.trace = settings->trace;
    recorder.profiler = settings->profiler;
    recorder.origin_ns = progress.start_ns;
    for (uint64_t step = settings->resumed + 1;
         step <= settings->steps && !stop && !measured->not_finite; step++) {
        struct step_result result = {.step = step};
        RUN_TRY(lead_step(&recorder, &feed, settings, &result));
        total_ns += result.ns;
        total_loss += (double)result.loss;
        measured->steps++;
        measured->last_step = step;
        measured->not_finite = find_not_finite(&result);
        if (measured->steps == 1 && measured->not_finite && !result.evaluated)
            measured->saved_step = 0; /* the checkpoint that the run began with is not good */
        if (measured->steps == 2)
            measured->settled_device_bytes = remat_session_device_bytes(session);
        RUN_TRY(log_step(ctx, &log, model, &result));
        print_step(settings, &progress, &result);
        if (measured->steps == 1 && output_failed())
            RUN_FAIL(ctx, REMAT_ERROR_IO, "standard output: nothing can be written to it");
        cli_keep_files();
        if (has_checkpoint(settings, step))
            RUN_TRY(save_checkpoint(ctx, model, settings, session, measured));
        stop = must_stop(settings); /* a checkpoint takes time too */
        if (stop && settings->checkpoint && !has_checkpoint(settings, step))
            RUN_TRY(save_checkpoint(ctx, model, settings, session, measured));
    }
    cli_line_end();
    if (settings->eval && measured->steps && !measured->not_finite)
        fprintf(settings->json ? stderr : stdout, "mean loss %.6f of %" PRIu64 " steps\n",
                total_loss / (double)measured->steps, measured->steps);
    measured->step_ns = measured->steps ? total_ns / measured->steps : 0;
    bool saved = settings->gradients_path && settings->gradients_step == measured->last_step;
    if (measured->not_finite == a_gradient && !saved)
        cli_log(ctx, REMAT_SEVERITY_INFO,
                "with --save-gradients FILE --gradients-step %" PRIu64 " its gradients are in FILE",
                measured->last_step);
    if (stop && measured->last_step < settings->steps)
        tell_of_stop(ctx, settings, measured->last_step);
fail:
    cli_line_end();
    recorder_release(&recorder);
    step_log_close(&log);
    feed_close(&feed);
    return st;
}

/* What decides on rank 0 whether there is a file is equal on all ranks. */
static remat_status join_checkpoint(remat_context *ctx, const struct model *model,
                                    remat_session *session, const struct peers *peers, bool *finite)
{
    remat_status st = REMAT_OK;
    RUN_TRY(safetensors_check_weights(ctx, model->plan, session, peers, finite));
    if (*finite)
        RUN_TRY(checkpoint_join(ctx, model->plan, session, peers));
fail:
    return st;
}

static remat_status join_weights(remat_context *ctx, const struct model *model,
                                 remat_session *session, const struct peers *peers, bool finite)
{
    remat_status st = REMAT_OK;
    if (!finite)
        return REMAT_OK;
    RUN_TRY(safetensors_check_weights(ctx, model->plan, session, peers, &finite));
    if (finite)
        RUN_TRY(safetensors_join_weights(ctx, model->plan, session, peers));
fail:
    return st;
}

static remat_status follow_step(struct run_recorder *recorder, const struct model *model,
                                const struct train_settings *settings, remat_session *session,
                                struct step_result *result)
{
    remat_status st = REMAT_OK;
    uint64_t begin = clock_ns();
    recorder->begin_ns = begin - ranks_begin_ns(settings->ranks);
    bool save = settings->gradients_path && result->step == settings->gradients_step;
    recorder->joining = is_hashed(settings) || save;
    RUN_TRY(recorder_run(recorder, session, settings->eval ? "eval" : "train"));
    result->ns = clock_ns() - begin - recorder->spent_ns;
    RUN_TRY(read_result(recorder->ctx, model, settings, &recorder->peers, session, result));
    if (save)
        RUN_TRY(safetensors_add_accumulators(recorder->ctx, NULL, model->plan, session,
                                             &recorder->peers));
fail:
    return st;
}

remat_status train_follow(remat_context *ctx, const struct model *model,
                          const struct train_settings *settings, remat_session *session,
                          struct peers peers, struct records *records, uint64_t *steps,
                          uint64_t *total_ns)
{
    remat_status st = REMAT_OK;
    struct run_recorder recorder = {0};
    struct feed feed = {0};
    enum ranks_order order;
    bool finite = true;
    double eval_loss;
    *steps = *total_ns = 0;
    RUN_TRY(feed_open(ctx, model, session, &feed));
    RUN_TRY(recorder_open(ctx, model->plan, peers, &recorder));
    recorder.trace = records->trace.stream ? &records->trace : NULL;
    recorder.profiler = records->profiler.commands ? &records->profiler : NULL;
    if (settings->initial_path && model->has_parts)
        RUN_TRY(safetensors_join_weights(ctx, model->plan, session, &peers));
    for (uint64_t turn = 1;; turn++) {
        RUN_TRY(ranks_wait_for_order(settings->ranks, turn, &order));
        if (order == RANKS_END)
            break;
        if (order == RANKS_SAVE) {
            RUN_TRY(join_checkpoint(ctx, model, session, &peers, &finite));
            continue;
        }
        if (order == RANKS_EVALUATE) {
            RUN_TRY(evaluate(settings, &feed, &eval_loss));
            finite &= isfinite(eval_loss) != 0;
            continue;
        }
        struct step_result result = {.step = settings->resumed + ++*steps};
        RUN_TRY(write_inputs(&feed, settings, &result));
        RUN_TRY(follow_step(&recorder, model, settings, session, &result));
        *total_ns += result.ns;
        finite = !find_not_finite(&result);
    }
    if (settings->weights_path && model->has_parts)
        RUN_TRY(join_weights(ctx, model, session, &peers, finite));
fail:
    recorder_release(&recorder);
    feed_close(&feed);
    return st;
}
