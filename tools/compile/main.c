/* remat-compile: a training graph and a memory budget, or a policy, into a plan. */
#include "cli.h"
#include "compile.h"
#include "curve_file.h"
#include "emit_cuda.h"
#include "graph_file.h"
#include "graph_text.h"
#include "profile.h"
#include "report.h"
#include "sizes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
#define OPTION CLI_OPTION_INDEX
#include "compile.def"
#undef OPTION
    OPTION_COUNT
};
static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "compile.def"
#undef OPTION
};
static const struct cli_tool tool = {
    .name = "remat-compile",
    .summary = "Compiles a training graph into a plan that fits a memory budget.",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .examples =
        {{"the fastest plan that fits into 2.2 GB",
          "remat-compile model.fbs --budget 2.2GB -o model.plan"},
         {"every layer recomputed, as Megatron-LM would",
          "remat-compile model.fbs --recompute-granularity full --recompute-method uniform"},
         {"every layer recomputed, attention kept",
          "remat-compile model.fbs --ac-mode full --save '*/attn/core'"}},
    .options = options,
    .option_count = OPTION_COUNT,
};

/* --- passes, as they run --- */

struct observer {
    remat_context *ctx;
    const struct cli_arguments *args;
    remat_status status; /* the first failure of printing */
};

static bool wants_pass(const struct cli_arguments *args, const char *pass)
{
    for (uint32_t i = 0; i < args->given_count; i++)
        if (args->given[i].option == OPTION_print_after && strcmp(args->given[i].value, pass) == 0)
            return true;
    return false;
}

static void print_graph(void *user, const char *pass, const struct remat_graph *graph)
{
    struct observer *observer = user;
    if (observer->status != REMAT_OK || !wants_pass(observer->args, pass))
        return;
    struct remat_arena scratch;
    remat_arena_init(&scratch, observer->ctx);
    struct remat_text text = {.arena = &scratch};
    observer->status = remat_graph_print(observer->ctx, graph, &text);
    if (observer->status == REMAT_OK)
        printf("# after %s\n%s", pass, text.items ? text.items : "");
    remat_arena_release(&scratch);
}

static void print_time(void *user, const char *pass, uint64_t ns, uint32_t runs)
{
    (void)user;
    fprintf(stderr, "%-20s %s", pass, cli_time(ns).text);
    if (runs > 1)
        fprintf(stderr, " in %" PRIu32 " runs", runs);
    fputc('\n', stderr);
}

static remat_status check_pass_names(remat_context *ctx, struct remat_arena *arena,
                                     const struct cli_arguments *args)
{
    const char *const *passes = remat_compile_passes();
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint32_t p = 0;
        if (args->given[i].option != OPTION_print_after)
            continue;
        while (passes[p] && strcmp(passes[p], args->given[i].value) != 0)
            p++;
        if (passes[p])
            continue;
        struct remat_text names = {.arena = arena};
        for (p = 0; passes[p]; p++)
            remat_text_append(&names, "%s%s", p ? ", " : "", passes[p]);
        return remat_error(ctx, REMAT_ERROR_USAGE, "--print-after '%s' is unknown (accepted: %s)",
                           args->given[i].value, names.items ? names.items : "");
    }
    return REMAT_OK;
}

/* --- settings --- */

static remat_status read_policy(struct remat_arena *arena, const struct cli_arguments *args,
                                struct remat_policy_settings *out)
{
    *out = (struct remat_policy_settings){
        .recompute_granularity = cli_text(args, OPTION_recompute_granularity, NULL),
        .recompute_activations = cli_has(args, OPTION_recompute_activations),
        .recompute_method = cli_text(args, OPTION_recompute_method, NULL),
        .has_recompute_num_layers = cli_has(args, OPTION_recompute_num_layers),
        .recompute_num_layers = cli_integer(args, OPTION_recompute_num_layers, 1),
        .recompute_num_layers_text = cli_text(args, OPTION_recompute_num_layers, NULL),
        .recompute_modules = cli_text(args, OPTION_recompute_modules, NULL),
        .ac_mode = cli_text(args, OPTION_ac_mode, NULL),
        .ac_option = cli_text(args, OPTION_ac_option, NULL),
        .save_ops = cli_text(args, OPTION_save_ops, NULL),
        .enable_activation_checkpointing = cli_has(args, OPTION_enable_activation_checkpointing),
        .distribute_saved_activations = cli_has(args, OPTION_distribute_saved_activations)};
    out->save = cli_texts(arena, args, OPTION_save, &out->save_count);
    out->recompute = cli_texts(arena, args, OPTION_recompute, &out->recompute_count);
    return out->save && out->recompute ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* What a plan records: what bears on its contents, not where it was written. */
static remat_status record_settings(struct remat_arena *arena, const struct cli_arguments *args,
                                    const char *bindings, struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    struct remat_setting *settings;
    REMAT_NEW(arena, settings, args->given_count);
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint32_t option = args->given[i].option;
        if (option == OPTION_output || option == OPTION_format || option == OPTION_verbose ||
            option == OPTION_print_after || option == OPTION_emit_cuda || option == OPTION_arch ||
            option == OPTION_nvrtc || option == OPTION_curve)
            continue;
        settings[out->setting_count++] = (struct remat_setting){
            options[option].name, option == OPTION_bind ? bindings : args->given[i].value};
    }
    out->settings = settings;
fail:
    return st;
}

static remat_status read_settings(remat_context *ctx, struct remat_arena *arena,
                                  const struct cli_arguments *args,
                                  struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_compile_settings){0};
    REMAT_TRY(check_pass_names(ctx, arena, args));
    REMAT_TRY(remat_device_description_read(ctx, arena, cli_text(args, OPTION_target, "cpu"),
                                            &out->device));
    if (cli_has(args, OPTION_profile))
        REMAT_TRY(remat_profile_read(ctx, arena, cli_text(args, OPTION_profile, NULL),
                                     cli_producer(), &out->device, &out->device.profile));
    if (cli_has(args, OPTION_arch) && !cli_has(args, OPTION_emit_cuda))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--arch needs --emit-cuda");
    if (cli_has(args, OPTION_nvrtc) && !cli_has(args, OPTION_arch))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--nvrtc needs --arch");
    uint64_t capacity = out->device.capacity_bytes;
    out->microbatches = (uint32_t)cli_integer(args, OPTION_microbatches, 1);
    out->has_budget = cli_has(args, OPTION_budget);
    out->has_reserve = cli_has(args, OPTION_reserve);
    out->reserve_bytes = out->device.reserve_bytes;
    REMAT_TRY(cli_size(ctx, args, OPTION_budget, capacity, &out->budget_bytes));
    REMAT_TRY(cli_size(ctx, args, OPTION_reserve, capacity, &out->reserve_bytes));
    REMAT_TRY(read_policy(arena, args, &out->policy));
    out->solver = (enum remat_solver)cli_choice(args, OPTION_solver, REMAT_SOLVER_PER_OP);
    if (out->has_budget && capacity && out->budget_bytes > capacity)
        remat_log(ctx, REMAT_SEVERITY_WARNING,
                  "budget %" PRIu64 " B exceeds the %" PRIu64
                  " B of %s; the plan will not run there",
                  out->budget_bytes, capacity, out->device.name);
fail:
    return st;
}

/* --- the graph --- */

/* The symbol batch becomes that of a microbatch. */
static remat_status divide_batch(remat_context *ctx, const char *path, struct remat_graph *graph,
                                 uint32_t microbatches)
{
    struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    if (microbatches == 1)
        return REMAT_OK;
    if (!batch)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: --microbatches needs a graph with the symbol \"batch\"", path);
    if (batch->value % microbatches)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " microbatches", path,
                           (long long)batch->value, microbatches);
    batch->value /= microbatches; /* 0, without a value, is refused where the symbol is used */
    return REMAT_OK;
}

static remat_status read_graph(remat_context *ctx, struct remat_arena *arena, const char *path,
                               struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY(graph_file_parse(ctx, path, data, bytes, arena, out));
fail:
    return st;
}

/* `parsed` stays as it is. */
static remat_status bind_graph(remat_context *ctx, struct remat_arena *arena, const char *path,
                               const struct remat_graph *parsed, const char *bindings,
                               uint32_t microbatches, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph;
    REMAT_TRY(remat_graph_copy(ctx, arena, parsed, &graph));
    REMAT_TRY(graph_file_set_symbols(ctx, path, bindings, graph));
    REMAT_TRY(divide_batch(ctx, path, graph, microbatches));
    REMAT_TRY(graph_file_bind(ctx, path, arena, graph, out));
fail:
    return st;
}

/* --- sizes --- */

struct attempts {
    remat_context *ctx;
    struct remat_arena *arena; /* of what is kept */
    const char *path;
    const struct remat_graph *parsed;
    const struct remat_compile_settings *settings;
    struct sizes *sizes;
};

/* What a step works on: tokens, or what the symbol counts. */
static double work_of(const struct remat_graph *graph, struct sizes *sizes, uint32_t value)
{
    static const char *const lengths[] = {"seq", "source_seq"};
    const struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    double tokens = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct remat_symbol *length = remat_graph_symbol(graph, lengths[i]);
        tokens += batch && length ? (double)batch->value * (double)length->value : 0;
    }
    sizes->unit = tokens > 0 ? "tokens" : sizes->symbol;
    return tokens > 0 ? tokens : value;
}

static remat_status attempt(void *user, struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    struct attempts *a = user;
    struct remat_arena scratch;
    struct remat_compile_settings settings = *a->settings;
    struct remat_graph *symbols, *graph;
    struct remat_program *program;
    remat_arena_init(&scratch, a->ctx);
    const char *bindings = sizes_bindings(&scratch, a->sizes, trial->value);
    if (!bindings)
        REMAT_FAIL(a->ctx, REMAT_ERROR_MEMORY, "out of memory");
    settings.after_pass = NULL;
    settings.pass_time = NULL;
    REMAT_TRY(remat_graph_copy(a->ctx, &scratch, a->parsed, &symbols));
    REMAT_TRY(graph_file_set_symbols(a->ctx, a->path, bindings, symbols));
    REMAT_TRY(
        bind_graph(a->ctx, &scratch, a->path, a->parsed, bindings, settings.microbatches, &graph));
    REMAT_TRY(remat_compile(a->ctx, &scratch, graph, &settings, &program));
    trial->policy = remat_arena_format(a->arena, "%s", program->policy);
    trial->step_ns = program->step_ns;
    trial->peak_bytes = program->peak_bytes;
    trial->rate = work_of(symbols, a->sizes, trial->value) * 1e9 / (double)program->step_ns;
    if (!trial->policy)
        st = REMAT_ERROR_MEMORY;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* The bindings to compile with: those given, with the best size in place of auto. */
static remat_status choose_bindings(remat_context *ctx, struct remat_arena *arena,
                                    const struct cli_arguments *args,
                                    const struct remat_graph *parsed,
                                    const struct remat_compile_settings *settings,
                                    struct sizes *sizes, const char **out)
{
    remat_status st = REMAT_OK;
    struct attempts attempts = {ctx, arena, args->operands[0], parsed, settings, sizes};
    *out = cli_text(args, OPTION_bind, "");
    REMAT_TRY(sizes_parse(ctx, arena, *out, settings->microbatches, sizes));
    if (!sizes->symbol)
        return REMAT_OK;
    if (!settings->has_budget)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind %s=auto needs --budget", sizes->symbol);
    st = sizes_search(ctx, arena, sizes, attempt, &attempts);
    if (st == REMAT_ERROR_INFEASIBLE) {
        const char *message = remat_arena_format(arena, "%s", remat_context_message(ctx));
        REMAT_FAIL(ctx, st, "the smallest %s, %" PRIu32 ", does not fit: %s", sizes->symbol,
                   sizes->smallest, message ? message : "");
    }
    REMAT_TRY(st);
    *out = sizes_bindings(arena, sizes, sizes->trials[sizes->best].value);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}

/* --- files --- */

static const char *plan_path(struct remat_arena *arena, const struct cli_arguments *args)
{
    const char *model = args->operands[0];
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    const char *dot = strrchr(base, '.');
    int stem = (int)(dot && dot > base ? dot - model : (long)strlen(model));
    const char *given = cli_text(args, OPTION_output, NULL);
    return given ? given : remat_arena_format(arena, "%.*s.plan", stem, model);
}

static remat_status check_path(remat_context *ctx, const char *path, const char *model)
{
    if (!path)
        return REMAT_ERROR_MEMORY;
    if (strcmp(path, model) == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--output '%s' is the model itself", path);
    return REMAT_OK;
}

static remat_status print_report(remat_context *ctx, const struct cli_arguments *args,
                                 const struct report *report)
{
    if (cli_has(args, OPTION_print_after)) /* graphs are all that was asked for */
        return REMAT_OK;
    if (cli_choice(args, OPTION_format, 0) == 0)
        report_print_text(report);
    else
        report_print_json(report);
    if (fflush(stdout) != 0)
        return remat_error(ctx, REMAT_ERROR_IO, "standard output: %s", strerror(errno));
    return REMAT_OK;
}

static bool has_pins(const struct remat_graph *graph, const struct remat_policy_settings *settings)
{
    bool pins = settings->save_count || settings->recompute_count;
    for (uint32_t v = 0; v < graph->value_count; v++)
        pins |= graph->values[v].pin != REMAT_PIN_NONE;
    return pins;
}

/* The policy behind a program: that of the settings, or the rung of its name. NULL without pins,
 * when the layers of the program are those of the policy. */
static remat_status find_chosen(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph,
                                const struct remat_policy_settings *settings,
                                const struct remat_program *program,
                                const struct remat_policy **out)
{
    remat_status st = REMAT_OK;
    struct remat_policy *policies;
    uint32_t count = 1;
    *out = NULL;
    if (!has_pins(graph, settings))
        return REMAT_OK;
    if (remat_policy_given(settings)) {
        REMAT_NEW(arena, policies, 1);
        REMAT_TRY(remat_policy_resolve(ctx, arena, graph, settings, policies));
    } else
        REMAT_TRY(remat_policy_ladder(ctx, arena, graph, &count, &policies));
    for (uint32_t i = 0; i < count && !*out; i++)
        if (strcmp(policies[i].name, program->policy) == 0)
            *out = &policies[i];
fail:
    return st;
}

/* Files are left only when everything has gone well. */
static remat_status deliver(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args, const struct report *report)
{
    remat_status st = REMAT_OK;
    const void *data;
    size_t bytes;
    bool plan = false, curve = false;
    if (report->program) {
        if (cli_has(args, OPTION_emit_cuda))
            REMAT_TRY(emit_cuda(ctx, arena, report->program,
                                &(struct emit_cuda_settings){cli_text(args, OPTION_emit_cuda, ""),
                                                             cli_text(args, OPTION_arch, NULL),
                                                             cli_text(args, OPTION_nvrtc, NULL)}));
        REMAT_TRY(remat_program_write(ctx, report->program, arena, &data, &bytes));
        REMAT_TRY(remat_file_write(ctx, report->path, data, bytes));
        plan = true;
    }
    if (report->frontier) {
        REMAT_TRY(curve_file_write(ctx, arena, report->curve_path, report->frontier));
        curve = true;
    }
    st = print_report(ctx, args, report);
fail:
    if (st != REMAT_OK && plan)
        remove(report->path);
    if (st != REMAT_OK && curve)
        remove(report->curve_path);
    return st;
}

/* What is wrong with the graph is found in the file: its name starts the message. */
static remat_status name_file(remat_context *ctx, const char *path)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", remat_context_message(ctx));
    bool named = strncmp(message, path, strlen(path)) == 0;
    return remat_error(ctx, REMAT_ERROR_INVALID, "%s%s%s", named ? "" : path, named ? "" : ": ",
                       message);
}

static remat_status check_curve(remat_context *ctx, const struct cli_arguments *args,
                                const struct remat_compile_settings *settings)
{
    const char *path = cli_text(args, OPTION_curve, NULL);
    if (!path)
        return REMAT_OK;
    if (remat_policy_given(&settings->policy))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--curve and a policy exclude each other: the curve compares policies");
    if (!settings->has_budget && (cli_has(args, OPTION_output) || cli_has(args, OPTION_emit_cuda)))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s needs --budget beside --curve: without it no plan is made",
                           cli_has(args, OPTION_output) ? "--output" : "--emit-cuda");
    if (strcmp(path, args->operands[0]) == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--curve '%s' is the model itself", path);
    return curve_file_check(ctx, path);
}

/* A plan, unless only a curve was asked for. */
static remat_status make_plan(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct remat_graph *graph,
                              const struct remat_compile_settings *settings, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_program *program;
    if (cli_has(args, OPTION_curve) && !settings->has_budget)
        return REMAT_OK;
    REMAT_TRY(remat_compile(ctx, arena, graph, settings, &program));
    REMAT_TRY(find_chosen(ctx, arena, graph, &settings->policy, program, &report->chosen));
    report->program = program;
    report->path = plan_path(arena, args);
fail:
    return st;
}

/* The curve, with the plan on it if there is one; passes are observed once. */
static remat_status make_curve(remat_context *ctx, struct remat_arena *arena,
                               const struct cli_arguments *args, const struct remat_graph *graph,
                               const struct remat_compile_settings *settings, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings unobserved = *settings;
    struct remat_frontier *frontier;
    if (!cli_has(args, OPTION_curve))
        return REMAT_OK;
    if (report->program) {
        unobserved.after_pass = NULL;
        unobserved.pass_time = NULL;
    }
    REMAT_NEW(arena, frontier, 1);
    REMAT_TRY(remat_compile_frontier(ctx, arena, graph, &unobserved, report->program, frontier));
    report->frontier = frontier;
    report->curve_path = cli_text(args, OPTION_curve, NULL);
fail:
    return st;
}

static remat_status make_report(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args,
                                struct remat_compile_settings *settings, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_graph *parsed, *graph;
    struct sizes *sizes;
    const char *bindings;
    REMAT_NEW(arena, sizes, 1);
    REMAT_TRY(read_graph(ctx, arena, args->operands[0], &parsed));
    REMAT_TRY(choose_bindings(ctx, arena, args, parsed, settings, sizes, &bindings));
    REMAT_TRY(record_settings(arena, args, bindings, settings));
    REMAT_TRY(bind_graph(ctx, arena, args->operands[0], parsed, bindings, settings->microbatches,
                         &graph));
    REMAT_TRY(make_plan(ctx, arena, args, graph, settings, report));
    REMAT_TRY(make_curve(ctx, arena, args, graph, settings, report));
    report->sizes = sizes->symbol ? sizes : NULL;
fail:
    return st;
}

static remat_status compile(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings settings;
    struct report report = {0};
    struct observer observer = {.ctx = ctx, .args = args};
    REMAT_TRY(check_path(ctx, plan_path(arena, args), args->operands[0]));
    REMAT_TRY(read_settings(ctx, arena, args, &settings));
    REMAT_TRY(check_curve(ctx, args, &settings));
    if (cli_has(args, OPTION_print_after)) {
        settings.after_pass = print_graph;
        settings.after_pass_user = &observer;
    }
    if (cli_has(args, OPTION_verbose))
        settings.pass_time = print_time;
    st = make_report(ctx, arena, args, &settings, &report);
    if (st == REMAT_ERROR_INVALID)
        st = name_file(ctx, args->operands[0]);
    REMAT_TRY(st);
    REMAT_TRY(observer.status);
    REMAT_TRY(deliver(ctx, arena, args, &report));
fail:
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, compile);
}
