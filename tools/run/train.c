#include "train.h"

#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* The first Ctrl-C ends the training after its step, the second one the process. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

static bool find_tensor(const remat_plan *plan, const char *name, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), out);
}

static remat_status check_ids(remat_context *ctx, const remat_plan *plan, const char *name,
                              remat_tensor_info *out)
{
    if (!find_tensor(plan, name, out))
        return cli_error(ctx, REMAT_ERROR_INVALID, "the plan has no input \"%s\"", name);
    if (out->role != REMAT_TENSOR_INPUT || out->element != REMAT_ELEMENT_I32 || out->rank != 2)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "\"%s\" is not an input of i32 [batch, sequence]", name);
    return REMAT_OK;
}

/* Rows of the family's table of token embeddings. */
static int64_t find_vocabulary(const remat_plan *plan, const struct family *family)
{
    remat_tensor_info table;
    bool found = family && find_tensor(plan, family->embeddings, &table) && table.rank == 2;
    return found ? table.shape[0] : INT64_MAX;
}

static remat_status inspect_source(remat_context *ctx, struct train_model *model)
{
    remat_status st = REMAT_OK;
    remat_tensor_info source;
    if (!find_tensor(model->plan, "source", &source))
        return REMAT_OK;
    RUN_TRY(check_ids(ctx, model->plan, "source", &source));
    if ((uint64_t)source.shape[0] != model->batch)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "\"source\" and \"tokens\" differ in batch");
    model->source_seq = (uint64_t)source.shape[1];
fail:
    return st;
}

static remat_status inspect_rng(remat_context *ctx, struct train_model *model)
{
    remat_tensor_info rng;
    model->has_rng = find_tensor(model->plan, "rng", &rng);
    if (model->has_rng && (rng.role != REMAT_TENSOR_INPUT || rng.element != REMAT_ELEMENT_I32 ||
                           rng.bytes != 4 * sizeof(int32_t)))
        return cli_error(ctx, REMAT_ERROR_INVALID, "\"rng\" is not an input of i32 [4]");
    return REMAT_OK;
}

static remat_status check_entry(remat_context *ctx, const remat_plan *plan, bool eval)
{
    const char *entry = eval ? "eval" : "train";
    for (uint32_t e = 0; e < remat_plan_entry_count(plan); e++)
        if (strcmp(remat_plan_entry_name(plan, e), entry) == 0)
            return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_INVALID, "the plan has no entry point \"%s\"%s", entry,
                     eval ? "" : ": its graph trains nothing (--eval evaluates it)");
}

remat_status train_inspect(remat_context *ctx, const remat_plan *plan, bool eval,
                           struct train_model *out)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tokens, targets, other;
    const struct family *family = family_of(plan);
    *out = (struct train_model){.plan = plan,
                                .feeding = family ? family->feeding : FEED_NEXT,
                                .vocabulary = find_vocabulary(plan, family)};
    RUN_TRY(check_entry(ctx, plan, eval));
    RUN_TRY(check_ids(ctx, plan, "tokens", &tokens));
    RUN_TRY(check_ids(ctx, plan, "targets", &targets));
    if (tokens.bytes != targets.bytes)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "\"tokens\" and \"targets\" differ in shape");
    out->batch = (uint64_t)tokens.shape[0];
    out->seq = (uint64_t)tokens.shape[1];
    if (!find_tensor(plan, "loss", &other) || other.bytes != sizeof(float) ||
        other.element != REMAT_ELEMENT_F32)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "the plan has no output \"loss\" of one f32");
    RUN_TRY(inspect_source(ctx, out));
    RUN_TRY(inspect_rng(ctx, out));
    out->has_lr = find_tensor(plan, "lr", &other);
    out->has_step = find_tensor(plan, "step", &other);
fail:
    return st;
}

struct step_result {
    uint64_t step, ns; /* step counted from 1 */
    float loss;
    double tokens_per_s;
    struct step_hashes hashes;
};

static remat_status write_masked(const struct train_model *model, const struct text *text,
                                 remat_session *session, uint64_t step, int32_t *ids)
{
    remat_status st = REMAT_OK;
    uint64_t batch = model->batch, seq = model->seq, count = batch * seq;
    text_window(text, step - 1, batch, seq, 0, seq, ids);
    text_mask(step, batch, seq, model->vocabulary, ids, TEXT_MASK_TOKENS);
    RUN_TRY(remat_session_write(session, "tokens", ids, count * sizeof *ids));
    text_window(text, step - 1, batch, seq, 0, seq, ids);
    text_mask(step, batch, seq, model->vocabulary, ids, TEXT_MASK_TARGETS);
    RUN_TRY(remat_session_write(session, "targets", ids, count * sizeof *ids));
fail:
    return st;
}

static remat_status write_next(const struct train_model *model, const struct text *text,
                               remat_session *session, uint64_t step, int32_t *ids)
{
    remat_status st = REMAT_OK;
    uint64_t batch = model->batch, seq = model->seq, bytes = batch * seq * sizeof *ids;
    uint64_t window = model->source_seq ? step : step - 1;
    text_window(text, window, batch, seq, 0, seq, ids);
    RUN_TRY(remat_session_write(session, "tokens", ids, bytes));
    text_window(text, window, batch, seq, 1, seq, ids);
    RUN_TRY(remat_session_write(session, "targets", ids, bytes));
    if (model->source_seq) {
        text_window(text, step - 1, batch, seq, 0, model->source_seq, ids);
        RUN_TRY(
            remat_session_write(session, "source", ids, batch * model->source_seq * sizeof *ids));
    }
fail:
    return st;
}

static remat_status write_inputs(const struct train_model *model,
                                 const struct train_settings *settings, const struct text *text,
                                 remat_session *session, uint64_t step, int32_t *ids)
{
    remat_status st = REMAT_OK;
    int32_t number = (int32_t)step;
    const uint32_t rng[4] = {(uint32_t)settings->seed, (uint32_t)(settings->seed >> 32),
                             (uint32_t)step, 0}; /* the last: number of the microbatch */
    RUN_TRY((model->feeding == FEED_MASKED ? write_masked : write_next)(model, text, session, step,
                                                                        ids));
    if (model->has_rng)
        RUN_TRY(remat_session_write(session, "rng", rng, sizeof rng));
    if (model->has_lr)
        RUN_TRY(remat_session_write(session, "lr", &settings->lr, sizeof settings->lr));
    if (model->has_step)
        RUN_TRY(remat_session_write(session, "step", &number, sizeof number));
fail:
    return st;
}

static remat_status run_step(struct recorder *recorder, const struct train_model *model,
                             const struct train_settings *settings, remat_session *session,
                             struct step_result *result)
{
    remat_status st = REMAT_OK;
    struct safetensors gradients = {0};
    bool save = settings->gradients_path && result->step == settings->gradients_step;
    if (save) {
        RUN_TRY(safetensors_open(recorder->ctx, settings->gradients_path, model->plan, &gradients));
        recorder->gradients = &gradients;
    }
    uint64_t begin = clock_ns();
    recorder->begin_ns = begin - recorder->origin_ns;
    RUN_TRY(recorder_run(recorder, session, settings->eval ? "eval" : "train"));
    result->ns = clock_ns() - begin - recorder->spent_ns;
    result->tokens_per_s = (double)(model->batch * model->seq) * 1e9 / (double)(result->ns + 1);
    result->hashes = recorder->hashes;
    RUN_TRY(remat_session_read(session, "loss", &result->loss, sizeof result->loss));
    if (save) {
        RUN_TRY(safetensors_add_accumulators(recorder->ctx, &gradients, model->plan, session));
        RUN_TRY(safetensors_close(recorder->ctx, &gradients));
    }
fail:
    recorder->gradients = NULL;
    safetensors_abandon(&gradients);
    return st;
}

static void print_json(const struct step_result *result)
{
    char loss[32] = "null"; /* JSON has no infinities */
    if (isfinite(result->loss))
        snprintf(loss, sizeof loss, "%.9g", (double)result->loss);
    printf("{\"step\":%" PRIu64 ",\"loss\":%s,\"tokens_per_s\":%.3f,\"step_ns\":%" PRIu64
           ",\"loss_hash\":\"%016" PRIx64 "\",\"grad_hash\":\"%016" PRIx64 "\"}\n",
           result->step, loss, result->tokens_per_s, result->ns, result->hashes.loss,
           result->hashes.grad);
}

static void print_text(const struct train_settings *settings, const struct step_result *result)
{
    printf("step %" PRIu64 " loss %.4f", result->step, (double)result->loss);
    if (settings->hash)
        printf(" loss_hash %016" PRIx64 " grad_hash %016" PRIx64, result->hashes.loss,
               result->hashes.grad);
    printf("\n");
}

static void print_step(const struct train_settings *settings, struct progress *progress,
                       const struct step_result *result)
{
    progress_clear(progress);
    if (settings->json)
        print_json(result);
    else
        print_text(settings, result);
    fflush(stdout);
    if (result->step < settings->steps)
        progress_update(progress, result->step, result->loss, result->tokens_per_s);
}

remat_status train(remat_context *ctx, const struct train_model *model,
                   const struct train_settings *settings, const struct text *text,
                   remat_session *session, struct measured *measured)
{
    remat_status st = REMAT_OK;
    struct recorder recorder = {.ctx = ctx,
                                .plan = model->plan,
                                .hashing = settings->hash || settings->json,
                                .trace = settings->trace,
                                .profiler = settings->profiler};
    struct progress progress;
    uint64_t total_ns = 0;
    double total_loss = 0;
    bool warned = false;
    uint64_t longest = model->seq > model->source_seq ? model->seq : model->source_seq;
    int32_t *ids = calloc(model->batch * longest + 1, sizeof *ids);
    if (!ids)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    catch_interrupts();
    progress_start(&progress, settings->steps);
    recorder.origin_ns = progress.start_ns;
    for (uint64_t step = 1; step <= settings->steps && !interrupted; step++) {
        struct step_result result = {.step = step};
        RUN_TRY(write_inputs(model, settings, text, session, step, ids));
        RUN_TRY(run_step(&recorder, model, settings, session, &result));
        total_ns += result.ns;
        total_loss += (double)result.loss;
        measured->steps = step;
        if (step == 2)
            measured->settled_device_bytes = remat_session_device_bytes(session);
        print_step(settings, &progress, &result);
        if (!isfinite(result.loss) && !warned) {
            progress_clear(&progress);
            cli_log(ctx, REMAT_SEVERITY_WARNING, "the loss of step %" PRIu64 " is not finite",
                    step);
            warned = true;
        }
    }
    progress_clear(&progress);
    if (settings->eval && measured->steps)
        fprintf(settings->json ? stderr : stdout, "mean loss %.6f of %" PRIu64 " steps\n",
                total_loss / (double)measured->steps, measured->steps);
    measured->step_ns = measured->steps ? total_ns / measured->steps : 0;
    if (interrupted)
        cli_log(ctx, REMAT_SEVERITY_INFO, "interrupted after step %" PRIu64 " of %" PRIu64,
                measured->steps, settings->steps);
fail:
    progress_clear(&progress);
    free(ids);
    return st;
}
