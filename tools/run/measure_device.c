/* SPDX-License-Identifier: Apache-2.0 */
/* Small plans (device_rates.h) train in sessions as any other. Of each command the shortest time
 * counts, as other processes can only add to it; device_rates.h makes rates of these. A launch is a
 * step of a plan that computes next to nothing, over its commands. */
#include "measure_device.h"

#include "device_rates.h"
#include "feed.h"
#include "json_file.h"
#include "machine.h"
#include "options.h"
#include "profiler.h"
#include "progress.h"
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ALL_NS        UINT64_C(20000000000) /* that all probes are run for */
#define LAYER_NS      2000000000            /* that one is at most, with each number of threads */
#define SMALL_NS      300000000             /* three of them */
#define STEPS_MIN     3
#define COUNTS_MAX    16 /* of numbers of threads: 1, 2, 4, ... and all */
#define RESERVE_BYTES (UINT64_C(128) << 20)
#define THREAD_BYTES  (UINT64_C(5) << 20) /* of scratch and stack; the process takes the rest */
#define FREE_THREADS  15                  /* that RESERVE_BYTES has room for */
#define IDLE_SHARE    0.05                /* of the cores, that others may keep busy */

/* --- running a probe --- */

struct trial {
    remat_plan *plan;
    struct model model;
    struct data data;
    struct rows rows;
    struct feed feed;
    remat_session *session;
    struct profiler profiler;
    uint64_t least_step_ns;
};

static int add_event(void *user, const remat_trace_event *event)
{
    profiler_add(user, event);
    return 0;
}

/* `threads`: 0: all cores. */
static remat_status trial_open(remat_context *ctx, const struct probe *probe, uint32_t threads,
                               struct trial *out)
{
    static const char *const entries[] = {"init", "train", NULL};
    remat_status st = REMAT_OK;
    remat_session_params params;
    remat_session_params_init(&params);
    params.device = "cpu";
    params.threads = threads;
    RUN_TRY(remat_plan_load_memory(ctx, probe->name, probe->plan, probe->bytes, &out->plan));
    RUN_TRY(model_inspect(ctx, out->plan, entries, &out->model));
    RUN_TRY(data_draw(ctx, &out->model, &out->data));
    out->rows = data_rows(&out->data);
    RUN_TRY(profiler_open(ctx, out->plan, &out->profiler));
    RUN_TRY(remat_session_create(ctx, out->plan, &params, &out->session));
    RUN_TRY(feed_open(ctx, &out->model, out->session, &out->feed));
    RUN_TRY(remat_session_run(out->session, "init"));
fail:
    return st;
}

static void trial_close(struct trial *trial)
{
    feed_close(&trial->feed);
    remat_session_destroy(&trial->session);
    profiler_release(&trial->profiler);
    data_release(&trial->data);
    remat_plan_destroy(&trial->plan);
}

static remat_status run_steps(struct trial *trial, uint64_t limit_ns)
{
    remat_status st = REMAT_OK;
    uint64_t end_ns = clock_ns() + limit_ns;
    trial->least_step_ns = UINT64_MAX;
    for (uint64_t step = 1; step <= STEPS_MIN || clock_ns() < end_ns; step++) {
        const struct step_inputs in = {.step = step, .lr = 1e-4f};
        RUN_TRY(feed_write(&trial->feed, &trial->rows, &in));
        uint64_t begin_ns = clock_ns();
        RUN_TRY(remat_session_run(trial->session, "train"));
        uint64_t ns = clock_ns() - begin_ns;
        trial->least_step_ns = ns < trial->least_step_ns ? ns : trial->least_step_ns;
    }
fail:
    return st;
}

static double least_ns(const struct profiler_runs *runs)
{
    uint64_t least = UINT64_MAX;
    for (uint64_t i = 0; i < PROFILER_SAMPLES && i < runs->count; i++)
        least = runs->ns[i] < least ? runs->ns[i] : least;
    return (double)least;
}

/* False: it has a price of its own. */
static bool find_kind(const char *kernel, enum timed_kind *out)
{
    static const char *const names[] = {"attention", "attention_backward", "matmul"};
    for (int k = TIMED_ATTENTION; k <= TIMED_MATMUL; k++)
        if (strcmp(kernel, names[k]) == 0) {
            *out = (enum timed_kind)k;
            return true;
        }
    *out = TIMED_FUSED;
    return strchr(kernel, '#') != NULL; /* the name of a fused kernel ends in a hash */
}

/* All probes mask causally; the first operand is [batch, queries, heads, depth]. */
static void read_attention(const remat_plan *plan, uint32_t command, struct timed *out)
{
    char operands[512];
    int queries = 1, depth = 1;
    remat_plan_command_operands(plan, command, operands, sizeof operands);
    sscanf(operands, "%*[^[][%*d,%d,%*d,%d", &queries, &depth);
    out->keys = (queries + 1) / 2.0;
    out->depth = depth;
}

static remat_status take_timings(remat_context *ctx, const struct profiler *profiler,
                                 double launch_ns, struct timings *out)
{
    out->items = calloc(profiler->command_count + 1, sizeof *out->items);
    if (!out->items)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t c = 0; c < profiler->command_count; c++) {
        const struct profiler_command *command = &profiler->commands[c];
        struct timed *timed = &out->items[out->count];
        if (!command->kernel || !find_kind(command->kernel, &timed->kind))
            continue;
        timed->flops = (double)command->flops;
        timed->bytes = (double)command->moved_bytes;
        timed->ns = fmax(1, least_ns(&command->runs) - launch_ns);
        if (timed->kind <= TIMED_ATTENTION_BACKWARD)
            read_attention(profiler->plan, c, timed);
        out->count++;
    }
    return REMAT_OK;
}

static remat_status time_probe(remat_context *ctx, int probe, uint32_t threads, uint64_t limit_ns,
                               double launch_ns, struct timings *out)
{
    remat_status st = REMAT_OK;
    struct trial trial = {0};
    RUN_TRY(trial_open(ctx, &probes[probe], threads, &trial));
    remat_session_set_trace(trial.session, add_event, &trial.profiler);
    RUN_TRY(run_steps(&trial, limit_ns));
    RUN_TRY(take_timings(ctx, &trial.profiler, launch_ns, out));
fail:
    trial_close(&trial);
    return st;
}

/* A step is traced to count its commands, the others run without a clock. */
static remat_status time_launch(remat_context *ctx, uint32_t threads, double *launch_ns)
{
    remat_status st = REMAT_OK;
    struct trial trial = {0};
    uint32_t commands = 0;
    RUN_TRY(trial_open(ctx, &probes[PROBE_COMMAND], threads, &trial));
    remat_session_set_trace(trial.session, add_event, &trial.profiler);
    RUN_TRY(run_steps(&trial, 0));
    for (uint32_t c = 0; c < trial.profiler.command_count; c++)
        commands += trial.profiler.commands[c].kernel != NULL;
    remat_session_set_trace(trial.session, NULL, NULL);
    RUN_TRY(run_steps(&trial, SMALL_NS));
    *launch_ns = (double)trial.least_step_ns / commands;
fail:
    trial_close(&trial);
    return st;
}

/* `count`: of numbers of threads, of which this is one. */
static remat_status measure(remat_context *ctx, uint32_t threads, uint32_t count, struct rates *out,
                            double *launch_ns)
{
    remat_status st = REMAT_OK;
    uint64_t layer_ns = (ALL_NS / count - 3 * SMALL_NS) / 2;
    layer_ns = layer_ns < LAYER_NS ? layer_ns : LAYER_NS;
    struct timings timings[PROBE_MEASURED] = {{0}};
    RUN_TRY(time_launch(ctx, threads, launch_ns));
    for (int p = 0; p < PROBE_MEASURED; p++)
        RUN_TRY(time_probe(ctx, p, threads, p <= PROBE_BF16 ? layer_ns : SMALL_NS, *launch_ns,
                           &timings[p]));
    rates_fit(timings, out);
fail:
    for (int p = 0; p < PROBE_MEASURED; p++)
        free(timings[p].items);
    return st;
}

/* --- the description --- */

/* 1, 2, 4, ... and all cores; or as many as are asked for. */
static remat_status list_counts(remat_context *ctx, uint32_t asked, uint32_t *counts,
                                uint32_t *count)
{
    remat_status st = REMAT_OK;
    struct trial trial = {0};
    *count = 0;
    if (!asked) {
        RUN_TRY(trial_open(ctx, &probes[PROBE_COMMAND], 0, &trial));
        asked = remat_session_threads(trial.session);
        for (uint32_t n = 1; n < asked && *count < COUNTS_MAX - 1; n *= 2)
            counts[(*count)++] = n;
    }
    counts[(*count)++] = asked;
fail:
    trial_close(&trial);
    return st;
}

static json_int_t per_second(double per_ns)
{
    double unit = pow(10, floor(log10(per_ns * 1e9)) - 3); /* four digits */
    return (json_int_t)(round(per_ns * 1e9 / unit) * unit);
}

static json_t *make_rates(const char *processor, uint32_t threads, const struct rates *r,
                          double launch_ns)
{
    char name[320];
    const struct attention_rate *forward = &r->attention[0], *backward = &r->attention[1];
    snprintf(name, sizeof name, "%s, %u thread%s", processor, threads, threads == 1 ? "" : "s");
    return json_pack("{s:s,s:I,s:{s:I},s:{s:I},s:{s:I,s:I},s:{s:f,s:I,s:f,s:I,s:I}}", "name", name,
                     "launch_ns", (json_int_t)ceil(launch_ns), "memory", "peak_bytes_per_s",
                     per_second(r->memory), "pointwise", "peak_flops_per_s",
                     per_second(r->pointwise), "matmul", "fp32_flops_per_s",
                     per_second(r->matmul_fp32), "bf16_flops_per_s", per_second(r->matmul_bf16),
                     "attention", "forward_efficiency", fmax(1e-3, forward->efficiency),
                     "forward_half_keys", (json_int_t)forward->half_keys, "backward_efficiency",
                     fmax(1e-3, backward->efficiency), "backward_half_keys",
                     (json_int_t)backward->half_keys, "half_width", (json_int_t)r->half_width);
}

/* What holds with any number of threads. */
static json_t *make_base(uint32_t most_threads)
{
    char source[128], day[16];
    time_t now = time(NULL);
    struct tm utc;
    uint64_t more = most_threads > FREE_THREADS ? most_threads - FREE_THREADS : 0;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &utc));
    snprintf(source, sizeof source, "measured by %s --measure-device, %s", cli_producer(), day);
    return json_pack("{s:s,s:s,s:i,s:I,s:i,s:{s:i},s:{s:i},s:{s:i,s:i,s:i,s:i,s:i,s:i},s:{}}",
                     "name", "", "source", source, "capacity_bytes", 0, "reserve_bytes",
                     (json_int_t)(RESERVE_BYTES + more * THREAD_BYTES), "launch_ns", 0, "memory",
                     "efficiency", 1, "pointwise", "efficiency", 1, "matmul", "tf32_flops_per_s", 0,
                     "fp16_flops_per_s", 0, "efficiency", 1, "processors", 1, "tile_rows", 1,
                     "tile_columns", 1, "attention");
}

/* The last number of threads is the description's own. */
static remat_status describe(remat_context *ctx, const uint32_t *counts, uint32_t count,
                             json_t **out)
{
    remat_status st = REMAT_OK;
    char processor[256], key[16];
    json_t *base = make_base(counts[count - 1]), *threads = json_object();
    bool complete = base && threads;
    machine_processor(processor, sizeof processor);
    for (uint32_t i = 0; i < count; i++) {
        struct rates rates;
        double launch_ns;
        cli_log(ctx, REMAT_SEVERITY_INFO, "measuring with %u of %u threads", counts[i],
                counts[count - 1]);
        RUN_TRY(measure(ctx, counts[i], count, &rates, &launch_ns));
        json_t *made = make_rates(processor, counts[i], &rates, launch_ns);
        snprintf(key, sizeof key, "%u", counts[i]);
        complete = complete && made && json_object_set(threads, key, made) == 0 &&
                   json_object_update_recursive(base, made) == 0;
        json_decref(made);
    }
    if (!complete || json_object_set(base, "threads", threads) != 0)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out = json_incref(base);
fail:
    json_decref(threads);
    json_decref(base);
    return st;
}

static uint64_t own_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}

/* Time of all cores that went to others than this process, since the machine started. */
static double others_busy_ns(void)
{
    return (double)machine_busy_ns("") - (double)own_ns();
}

static void warn_if_busy(remat_context *ctx, double others_ns, uint64_t elapsed_ns)
{
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), busy = others_ns / (double)elapsed_ns;
    if (busy > IDLE_SHARE * cores)
        cli_log(
            ctx, REMAT_SEVERITY_WARNING,
            "other processes kept %.1f of the machine's %.0f cores busy meanwhile: the measured "
            "rates are too low",
            busy, cores);
}

static remat_status check_alone(remat_context *ctx, const struct cli_arguments *args)
{
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint32_t option = args->given[i].option;
        if (option != OPTION_measure_device && option != OPTION_threads)
            return cli_error(ctx, REMAT_ERROR_USAGE, "--%s contradicts --measure-device",
                             args->tool->options[option].name);
    }
    if (args->operand_count)
        return cli_error(ctx, REMAT_ERROR_USAGE, "--measure-device runs plans of its own, not '%s'",
                         args->operands[0]);
    const char *path = cli_text(args, OPTION_measure_device, NULL), *ending = strrchr(path, '.');
    return ending && strcmp(ending, ".json") == 0
               ? REMAT_OK
               : cli_error(ctx, REMAT_ERROR_USAGE,
                           "--measure-device %s: the name must end in .json, as --target expects",
                           path);
}

remat_status measure_device(remat_context *ctx, const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    uint32_t counts[COUNTS_MAX], count;
    json_t *root = NULL;
    uint64_t begin_ns = clock_ns();
    double others_ns = others_busy_ns();
    RUN_TRY(check_alone(ctx, args));
    RUN_TRY(list_counts(ctx, (uint32_t)cli_integer(args, OPTION_threads, 0), counts, &count));
    RUN_TRY(describe(ctx, counts, count, &root));
    warn_if_busy(ctx, others_busy_ns() - others_ns, clock_ns() - begin_ns);
    RUN_TRY(
        json_file_write(ctx, args->outputs, cli_text(args, OPTION_measure_device, NULL), root, 2));
fail:
    return st;
}
