/* SPDX-License-Identifier: Apache-2.0 */
/* remat-compile: a training graph and a memory budget, or a policy, into a plan. */
#include "adapters.h"
#include "curve_file.h"
#include "emit_cuda.h"
#include "files.h"
#include "interrupt.h"
#include "options.h"
#include "progress.h"
#include "size.h"
#include "tool.h"
#include "unwind.h"
#include "wrap.h"

#include <remat/compile.h>

#include <inttypes.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64

static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "compile.def"
#undef OPTION
};
static const struct cli_tool tool = {
    .name = "remat-compile",
    .summary = "Compiles a training graph into a plan that fits a memory budget.",
    .operands = "MODEL",
    .operand_help = "the graph, a file that remat-graph wrote or text (docs/ir.md)",
    .operand_kind = CLI_INPUT,
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

static const char *plan_path(struct remat_arena *arena, const struct cli_arguments *args)
{
    const char *model = args->operands[0];
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    const char *dot = strrchr(base, '.');
    int stem = (int)(dot && dot > base ? dot - model : (long)strlen(model));
    const char *given = cli_text(args, OPTION_output, NULL);
    return given ? given : remat_arena_format(arena, "%.*s.plan", stem, model);
}

/* A plan without --output has a name of its own. */
static remat_status claim_plan(struct remat_arena *arena, const struct cli_arguments *args,
                               const char **out)
{
    *out = plan_path(arena, args);
    if (!*out)
        return REMAT_ERROR_MEMORY;
    bool made = !cli_has(args, OPTION_curve) || cli_has(args, OPTION_budget);
    return cli_has(args, OPTION_output) || !made
               ? REMAT_OK
               : remat_outputs_claim(args->outputs, "--output", *out);
}

/* Standard output has something else than a report. */
static bool is_printed(const struct cli_arguments *args)
{
    return cli_has(args, OPTION_print_after) || cli_has(args, OPTION_print_plan) ||
           cli_has(args, OPTION_explain);
}

/* --- the command line as options --- */

static bool is_of_output(uint32_t option)
{
    return option == OPTION_output || option == OPTION_format || option == OPTION_emit_cuda ||
           option == OPTION_curve;
}

/* Advice is for a report that is printed. */
static remat_status set_options(const struct cli_arguments *args, remat_compile_options *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < args->given_count; i++) {
        const struct cli_option *option = &args->tool->options[args->given[i].option];
        bool flag = option->kind == CLI_FLAG;
        if (!is_of_output(args->given[i].option))
            REMAT_TRY(
                remat_compile_options_set(out, option->name, flag ? "true" : args->given[i].value));
    }
    if (cli_has(args, OPTION_emit_cuda))
        REMAT_TRY(remat_compile_options_set(out, "cuda", "true"));
    if (cli_has(args, OPTION_curve))
        REMAT_TRY(remat_compile_options_set(out, "marks", "true"));
    else if (!is_printed(args))
        REMAT_TRY(remat_compile_options_set(out, "advise", "true"));
fail:
    return st;
}

static bool has_policy(const struct cli_arguments *args)
{
    for (uint32_t i = 0; i < args->given_count; i++)
        if (strncmp(args->tool->options[args->given[i].option].group, "Policy", strlen("Policy")) ==
            0)
            return true;
    return false;
}

/* Whether there is a choice. */
static bool searches(const struct cli_arguments *args)
{
    return (cli_has(args, OPTION_budget) && !has_policy(args)) || cli_has(args, OPTION_curve) ||
           cli_has(args, OPTION_ranks) ||
           strcmp(cli_text(args, OPTION_microbatches, ""), "auto") == 0 ||
           strstr(cli_text(args, OPTION_bind, ""), "=auto");
}

static bool asks_cubins(const struct cli_arguments *args)
{
    return strcmp(cli_text(args, OPTION_arch, "none"), "none") != 0;
}

static bool makes_plan(const struct cli_arguments *args)
{
    return !cli_has(args, OPTION_curve) || cli_has(args, OPTION_budget);
}

static remat_status check_curve(remat_context *ctx, const struct cli_arguments *args)
{
    const char *path = cli_text(args, OPTION_curve, NULL);
    const char *needing = cli_has(args, OPTION_output)      ? "--output"
                          : cli_has(args, OPTION_explain)   ? "--explain"
                          : cli_has(args, OPTION_emit_cuda) ? "--emit-cuda"
                          : asks_cubins(args)               ? "--arch"
                                                            : NULL;
    if (!path)
        return REMAT_OK;
    if (has_policy(args))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--curve and a policy exclude each other: the curve compares policies");
    if (!makes_plan(args) && needing)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s needs --budget beside --curve: without it no plan is made", needing);
    return curve_file_check(ctx, path);
}

static remat_status check_options(remat_context *ctx, const struct cli_arguments *args)
{
    static const uint32_t others[] = {OPTION_print_plan, OPTION_print_after};
    REMAT_CHECK(check_curve(ctx, args));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cli_has(args, OPTION_explain) && cli_has(args, others[i]))
            return remat_error(ctx, REMAT_ERROR_USAGE, "--explain and --%s: one of them",
                               args->tool->options[others[i]].name);
    return cli_has(args, OPTION_emit_cuda)
               ? emit_cuda_check(ctx, cli_text(args, OPTION_emit_cuda, ""))
               : REMAT_OK;
}

/* --- text --- */

static void show(void *user, bool time, const char *text)
{
    (void)user;
    fputs(text, time ? stderr : stdout);
}

static void print_line(void *user, const char *line, bool prose)
{
    (void)user;
    if (prose)
        cli_print(stdout, "%s\n", line);
    else
        printf("%s\n", line);
}

static void append_line(void *user, const char *line, bool prose)
{
    (void)prose;
    remat_text_append(user, "%s\n", line);
}

struct compilation {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct cli_arguments *args;
    const char *path; /* of the plan */
    remat_compile_options *options;
    remat_graph_builder *graph;
    remat_compiled *compiled;      /* NULL: only a curve was asked for */
    remat_trade *trade;            /* NULL: none was */
    struct remat_text explanation; /* for --explain */
    struct progress progress;
};

static remat_status print_report(const struct compilation *c)
{
    const remat_report_spec spec = {.struct_size = sizeof spec,
                                    .json = cli_choice(c->args, OPTION_format, 0) != 0,
                                    .plan_path = c->path,
                                    .trade = c->trade,
                                    .trade_path = cli_text(c->args, OPTION_curve, NULL)};
    fputs(c->explanation.items ? c->explanation.items : "", stdout);
    if (is_printed(c->args))
        return REMAT_OK; /* that is all that was asked for */
    return remat_compiled_report(c->ctx, c->compiled, &spec, print_line, NULL);
}

static remat_status explain(struct compilation *c)
{
    bool json = cli_choice(c->args, OPTION_format, 0) != 0;
    c->explanation.arena = c->arena;
    return remat_compiled_explain(c->ctx, c->compiled, json, append_line, &c->explanation);
}

/* After a failure, whose message stays: lines after it, and what was asked for of the smallest
 * plan. */
static remat_status print_refusal(struct compilation *c, remat_status failed)
{
    struct remat_text lines = {.arena = c->arena};
    remat_report_spec spec = {.struct_size = sizeof spec};
    if (!c->compiled)
        return failed;
    REMAT_CHECK(remat_compiled_report(c->ctx, c->compiled, &spec, append_line, &lines));
    cli_explain(lines.items ? lines.items : "");
    REMAT_CHECK(explain(c));
    fputs(c->explanation.items ? c->explanation.items : "", stdout);
    spec.json = cli_choice(c->args, OPTION_format, 0) != 0 && !is_printed(c->args);
    if (spec.json)
        REMAT_CHECK(remat_compiled_report(c->ctx, c->compiled, &spec, print_line, NULL));
    return failed;
}

/* --- cubins --- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct cubins {
    struct cli_watch watch;
    uint32_t begun, of;
};

static void tell(void *user, double elapsed)
{
    const struct cubins *c = user;
    fprintf(stderr, "remat-compile: %.0f s, cubins: %" PRIu32 " of %" PRIu32 " begun\n", elapsed,
            c->begun, c->of);
}

static bool is_over(void *user, uint32_t begun, uint32_t of)
{
    struct cubins *c = user;
    c->begun = begun;
    c->of = of;
    return cli_watch_over(&c->watch);
}

static remat_status make_cubins(const struct compilation *c)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct cubins cubins = {.watch = {.tell = tell, .user = &cubins}};
    remat_cubins_spec spec = {.struct_size = sizeof spec, .is_over = is_over, .user = &cubins};
    char cache[4096];
    uint64_t begin = now_ns();
    if (asks_cubins(c->args)) {
        spec.needs_cache = cli_has(c->args, OPTION_cache);
        spec.threads = processors < THREADS_MAX ? (uint32_t)processors : THREADS_MAX;
        REMAT_CHECK(
            cli_cache_folder(c->ctx, cli_text(c->args, OPTION_cache, NULL), cache, sizeof cache));
        spec.cache = *cache ? cache : NULL;
        REMAT_CHECK(cli_watch_start(c->ctx, NULL, &cubins.watch));
    }
    REMAT_CHECK(remat_compiled_make_cubins(c->ctx, c->compiled, &spec));
    if (spec.compiled_count + spec.cached_count && cli_has(c->args, OPTION_verbose))
        fprintf(stderr, "%-20s %s elapsed, %" PRIu32 " compiled, %" PRIu32 " from the cache\n",
                "cubins", remat_time_text(now_ns() - begin).text, spec.compiled_count,
                spec.cached_count);
    return REMAT_OK;
}

/* --- files --- */

static remat_status deliver(const struct compilation *c)
{
    const struct cli_arguments *args = c->args;
    struct remat_outputs *outputs = args->outputs;
    remat_compiled_info info = {.struct_size = sizeof info};
    const void *data;
    size_t bytes;
    FILE *stream; /* of a FIFO: opened while a signal still ends the wait for a reader */
    if (c->compiled)
        remat_compiled_get_info(c->compiled, &info);
    bool written = info.planned && (!info.foreign || cli_has(args, OPTION_output));
    if (written)
        REMAT_CHECK(remat_outputs_stream(outputs, c->path, &stream));
    if (c->trade)
        REMAT_CHECK(remat_outputs_stream(outputs, cli_text(args, OPTION_curve, ""), &stream));
    cli_hold_interrupts();
    if (written) {
        REMAT_CHECK(remat_compiled_data(c->ctx, c->compiled, &data, &bytes));
        REMAT_CHECK(remat_outputs_write(outputs, c->path, data, bytes));
    }
    if (c->trade)
        REMAT_CHECK(
            curve_file_write(c->arena, outputs, cli_text(args, OPTION_curve, ""), c->trade));
    if (info.planned && cli_has(args, OPTION_emit_cuda))
        REMAT_CHECK(emit_cuda(c->ctx, outputs, c->compiled, cli_text(args, OPTION_emit_cuda, "")));
    return print_report(c);
}

/* --- the whole --- */

struct adapting {
    const struct cli_arguments *args;
    struct remat_arena *arena;
};

static remat_status adapt(void *user, remat_context *ctx, int64_t rank, const void **out_data,
                          size_t *out_bytes, const char **why)
{
    const struct adapting *a = user;
    return remat_adapters_make(ctx, a->arena, a->args->operands[0],
                               cli_text(a->args, OPTION_bind, ""), rank, out_data, out_bytes, why);
}

static remat_status make(struct compilation *c)
{
    remat_status st = REMAT_OK;
    const struct cli_arguments *args = c->args;
    struct adapting adapting = {args, c->arena};
    REMAT_CHECK(claim_plan(c->arena, args, &c->path));
    REMAT_CHECK(remat_compile_options_create(c->ctx, &c->options));
    REMAT_CHECK(set_options(args, c->options));
    REMAT_CHECK(check_options(c->ctx, args));
    remat_compile_options_show(c->options, show, NULL);
    remat_compile_options_adapt(c->options, adapt, &adapting);
    if (searches(args))
        REMAT_CHECK(progress_start(c->ctx, c->options, &c->progress));
    REMAT_CHECK(remat_graph_builder_read(c->ctx, args->operands[0], &c->graph));
    if (makes_plan(args))
        st = remat_compiled_create(c->ctx, c->graph, c->options, &c->compiled);
    if (st != REMAT_OK)
        return print_refusal(c, st);
    if (cli_has(args, OPTION_curve))
        REMAT_CHECK(remat_trade_create(c->ctx, c->graph, c->options, c->compiled, &c->trade));
    if (c->compiled && cli_has(args, OPTION_explain))
        REMAT_CHECK(explain(c));
    if (c->compiled)
        REMAT_CHECK(make_cubins(c));
    return deliver(c);
}

static remat_status compile(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args)
{
    struct compilation c = {.ctx = ctx, .arena = arena, .args = args};
    remat_status st = make(&c);
    cli_release_interrupts();
    remat_trade_destroy(&c.trade);
    remat_compiled_destroy(&c.compiled);
    remat_compile_options_destroy(&c.options);
    remat_graph_builder_destroy(&c.graph);
    return st;
}

/* Memory comes and goes in large blocks, as graphs do: kept, it needs no new pages each time. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int main(int argc, char **argv)
{
    keep_memory();
    return cli_main(&tool, argc, argv, compile);
}
