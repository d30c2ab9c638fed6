/* SPDX-License-Identifier: Apache-2.0 */
/* remat-compile: a training graph and a memory budget, or a policy, into a plan. */
#include "adapters.h"
#include "advice.h"
#include "advice_options.h"
#include "cubins_option.h"
#include "curve_file.h"
#include "division.h"
#include "emit_cuda.h"
#include "explain.h"
#include "files.h"
#include "graph_file.h"
#include "interrupt.h"
#include "model.h"
#include "notes.h"
#include "observe.h"
#include "options.h"
#include "plan_lines.h"
#include "profile.h"
#include "program.h"
#include "refusal_text.h"
#include "report.h"
#include "settings.h"
#include "size.h"
#include "tool.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>

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

static void print_report(const struct cli_arguments *args, const struct report *report)
{
    explain_print(&report->explanation);
    if (is_printed(args))
        return; /* that is all that was asked for */
    if (cli_choice(args, OPTION_format, 0) == 0)
        report_print_text(report);
    else
        report_print_json(report);
}

static bool has_pins(const struct remat_graph *graph, const struct remat_policy_settings *settings)
{
    bool pins = settings->save_count || settings->recompute_count;
    for (uint32_t v = 0; v < graph->value_count; v++)
        pins |= graph->values[v].pin != REMAT_PIN_NONE;
    return pins;
}

/* The policy of a program: that of the settings, or the manual policy of its name. NULL without
 * pins, when the layers of the program are those of the policy. */
static remat_status find_chosen(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *input,
                                const struct remat_compile_settings *all,
                                const struct remat_program *program,
                                const struct remat_policy **out)
{
    remat_status st = REMAT_OK;
    struct remat_policies policies = {0};
    const struct remat_policy_settings *settings = &all->search.policy;
    const struct remat_graph graph = remat_graph_on_mesh(input, &all->mesh);
    *out = NULL;
    if (!has_pins(input, settings))
        return REMAT_OK;
    if (remat_policy_given(settings)) {
        struct remat_policy policy;
        REMAT_TRY(remat_policy_resolve(ctx, arena, &graph, settings, &policy));
        REMAT_PUSH(arena, &policies, policy);
    } else {
        remat_manual_policies(arena, &graph, &policies);
    }
    for (uint32_t i = 0; i < policies.count && !*out; i++)
        if (strcmp(policies.items[i].name, program->policy) == 0)
            *out = &policies.items[i];
fail:
    return st;
}

static remat_status deliver(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args, const struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_outputs *outputs = args->outputs;
    const void *data;
    size_t bytes;
    FILE *stream; /* of a FIFO: opened while a signal still ends the wait for a reader */
    bool written = report->program && (!report->program->foreign || cli_has(args, OPTION_output));
    if (written)
        REMAT_TRY(remat_outputs_stream(outputs, report->path, &stream));
    if (report->front)
        REMAT_TRY(remat_outputs_stream(outputs, report->curve_path, &stream));
    cli_hold_interrupts();
    if (written) {
        REMAT_TRY(remat_program_write(ctx, report->program, arena, &data, &bytes));
        REMAT_TRY(remat_outputs_write(outputs, report->path, data, bytes));
    }
    if (report->front)
        REMAT_TRY(
            curve_file_write(arena, outputs, report->curve_path, report->front, &report->picture));
    if (report->program && cli_has(args, OPTION_emit_cuda))
        REMAT_TRY(emit_cuda(arena, outputs, report->program, cli_text(args, OPTION_emit_cuda, "")));
    print_report(args, report);
fail:
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
    if (remat_policy_given(&settings->search.policy))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--curve and a policy exclude each other: the curve compares policies");
    if (!settings->search.has_budget &&
        (cli_has(args, OPTION_output) || settings->needs_cuda || cli_has(args, OPTION_explain)))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s needs --budget beside --curve: without it no plan is made",
                           cli_has(args, OPTION_output)      ? "--output"
                           : cli_has(args, OPTION_explain)   ? "--explain"
                           : cli_has(args, OPTION_emit_cuda) ? "--emit-cuda"
                                                             : "--arch");
    return curve_file_check(ctx, path);
}

/* A plan, unless only a curve was asked for. */
static remat_status make_plan(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct remat_graph *graph,
                              const struct remat_compile_settings *settings, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_program *program;
    uint8_t *extents;
    struct remat_text manuals = {.arena = arena}, certificate = {.arena = arena};
    struct remat_text costs = {.arena = arena};
    if (cli_has(args, OPTION_curve) && !settings->search.has_budget)
        return REMAT_OK;
    REMAT_TRY(remat_compile(ctx, arena, graph, settings, &program));
    REMAT_TRY(find_chosen(ctx, arena, graph, settings, program, &report->chosen));
    report->program = program;
    REMAT_TRY(static_parts_measure(arena, program, &report->parts));
    REMAT_TRY_NEW(arena, extents, program->layer_count);
    remat_program_layer_extents(program, extents);
    report->layer_extents = extents;
    manuals_print(program, 13, &manuals);
    report->manuals = manuals.items ? manuals.items : "";
    certificate_print(program, &certificate);
    report->certificate = certificate.items ? certificate.items : "";
    costs_print(program, &costs);
    if (!settings->device.profile)
        report->profile_beside =
            remat_profile_beside(arena, cli_text(args, OPTION_target, "cpu"), &settings->device);
    else
        REMAT_TRY(unnamed_note(arena, program));
    if (report->profile_beside) {
        remat_text_append(&costs, "; a measured profile: --profile ");
        shell_word_append(&costs, report->profile_beside);
    }
    report->costs = costs.items ? costs.items : "";
fail:
    return st;
}

/* The curve, with the plan on it if there is one, and with settings of other systems, none of which
 * has pins; passes are observed once. */
static remat_status make_curve(remat_context *ctx, struct remat_arena *arena,
                               const struct cli_arguments *args, const struct remat_graph *graph,
                               const struct remat_compile_settings *settings, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings unobserved = *settings;
    struct remat_front *front;
    struct remat_policies policies = {0};
    if (!cli_has(args, OPTION_curve))
        return REMAT_OK;
    if (report->program) {
        unobserved.after_pass = NULL;
        unobserved.pass_time = NULL;
        unobserved.is_late = NULL;
    }
    REMAT_TRY_NEW(arena, front, 1);
    if (!has_pins(graph, &settings->search.policy))
        REMAT_TRY(curve_picture_policies(ctx, arena, graph, &policies));
    front->plan = report->program;
    front->policies = policies.items;
    front->policy_count = (uint32_t)policies.count;
    REMAT_TRY(remat_compile_front(ctx, arena, graph, &unobserved, front));
    REMAT_TRY(curve_picture_mark(arena, front, &report->picture));
    report->front = front;
    report->curve_path = cli_text(args, OPTION_curve, NULL);
fail:
    return st;
}

static remat_status make_report(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args, struct remat_graph *parsed,
                                struct remat_compile_settings *settings, struct progress *progress,
                                struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph;
    struct sizes *sizes;
    const struct divisions *divisions = report->divisions;
    const char *bindings;
    bool cut_short;
    REMAT_TRY_NEW(arena, sizes, 1);
    REMAT_TRY(
        model_choose_bindings(ctx, arena, args, parsed, settings, progress, sizes, &bindings));
    REMAT_TRY(settings_record(arena, args, bindings, settings));
    REMAT_TRY(model_bind(ctx, arena, args->operands[0], parsed, bindings, settings, &graph));
    struct remat_compile_settings in_full = *settings;
    cut_short = sizes->cut_short || (divisions && divisions->cut_short);
    if (sizes->symbol || divisions)
        in_full.is_late = NULL; /* there was such a plan */
    if (cut_short)
        in_full.search.is_over = NULL;
    REMAT_TRY(make_plan(ctx, arena, args, graph, &in_full, report));
    if (report->program)
        REMAT_TRY(positions_note(arena, report->program));
    if (settings->device.cuda_arch && report->program)
        REMAT_TRY(unaligned_note(arena, report->program));
    if (settings->device.rocm_arch && report->program)
        REMAT_TRY(notes_add(arena, report->program,
                            "remat makes no code for %s (%s): this plan shows memory and time, and "
                            "cannot run there",
                            settings->device.name, settings->device.rocm_arch));
    if (cut_short)
        REMAT_TRY(notes_add(
            arena, report->program,
            "the search for %s was cut short: what was found by then depends on the machine",
            divisions ? "a division" : sizes->symbol));
    REMAT_TRY(make_curve(ctx, arena, args, graph, settings, report));
    if (report->front) {
        REMAT_TRY(remat_graph_set_symbols(ctx, args->operands[0], bindings, parsed));
        REMAT_TRY(curve_picture_name(arena, parsed, settings, &report->picture));
    }
    report->sizes = sizes->symbol ? sizes : NULL;
fail:
    return st;
}

/* With gradients in smaller pieces, the largest that fit. A refusal is that of the smallest, so
 * these are tried first. */
static remat_status make_report_in_pieces(remat_context *ctx, struct remat_arena *arena,
                                          const struct cli_arguments *args,
                                          struct remat_graph *parsed,
                                          struct remat_compile_settings *settings,
                                          struct progress *progress, struct report *report)
{
    remat_status st = REMAT_OK;
    struct report smallest;
    uint64_t bytes = REMAT_EXCHANGE_BYTES / 4;
    settings->passes.exchange_bytes = SETTINGS_SMALLEST_PIECE_BYTES;
    settings->search.briefly = false;
    REMAT_TRY(make_report(ctx, arena, args, parsed, settings, progress, report));
    smallest = *report;
    settings->search.briefly = true;
    for (st = REMAT_ERROR_INFEASIBLE;
         st == REMAT_ERROR_INFEASIBLE && bytes > SETTINGS_SMALLEST_PIECE_BYTES; bytes /= 4) {
        settings->passes.exchange_bytes = bytes;
        st = make_report(ctx, arena, args, parsed, settings, progress, report);
    }
    bool in_time = st != REMAT_ERROR_CUT_SHORT;
    if (st == REMAT_ERROR_INFEASIBLE || !in_time) {
        st = REMAT_OK;
        settings->passes.exchange_bytes = SETTINGS_SMALLEST_PIECE_BYTES;
        *report = smallest;
    }
    REMAT_TRY(st);
    if (report->program)
        REMAT_TRY(notes_add(arena, report->program,
                            "gradients are exchanged in pieces of %s: in larger ones nothing %s",
                            remat_short_text(settings->passes.exchange_bytes).text,
                            in_time ? "fits" : "was found in time"));
fail:
    return st;
}

/* A step of `parsed` as `settings` divide it. */
static remat_status make_divided_report(remat_context *ctx, struct remat_arena *arena,
                                        const struct cli_arguments *args,
                                        struct remat_graph *parsed,
                                        struct remat_compile_settings *settings,
                                        struct progress *progress, struct report *report)
{
    settings->search.briefly = settings_may_cut_gradients(args, parsed, settings);
    remat_status st = make_report(ctx, arena, args, parsed, settings, progress, report);
    if (st == REMAT_ERROR_INFEASIBLE && settings->search.briefly)
        st = make_report_in_pieces(ctx, arena, args, parsed, settings, progress, report);
    return st;
}

/* --- advice --- */

struct adviser {
    remat_context *ctx;
    const struct cli_arguments *args;
    struct progress *progress;
};

struct smallest {
    struct remat_arena *arena;
    struct advice_facts *facts;
    remat_status st;
};

static void keep_smallest(void *user, const struct remat_refusal *refusal)
{
    struct smallest *kept = user;
    if (!refusal->smallest)
        return;
    kept->st = advice_measure(kept->arena, refusal->smallest, kept->facts);
    kept->facts->needed_bytes = refusal->smallest_bytes;
    kept->facts->step_ns = 0;
}

static remat_status plan_advised(void *user, struct remat_graph *graph,
                                 struct remat_compile_settings *settings, struct advice_facts *out)
{
    const struct adviser *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    struct report report = {0};
    struct smallest smallest = {scratch, out, REMAT_OK};
    settings->after_pass = NULL;
    settings->pass_time = NULL;
    settings->search.bounded = NULL;
    settings->search.tried = NULL;
    settings->search.refused = keep_smallest;
    settings->search.refused_user = &smallest;
    settings->without_cuda = true;
    remat_status st =
        make_divided_report(a->ctx, scratch, a->args, graph, settings, a->progress, &report);
    if (st == REMAT_OK)
        st = advice_measure(scratch, report.program, out);
    if (st == REMAT_ERROR_INFEASIBLE && smallest.st != REMAT_OK)
        st = smallest.st;
    if (cli_interrupted() || st == REMAT_ERROR_CUT_SHORT || st == REMAT_ERROR_USAGE ||
        st == REMAT_ERROR_INVALID)
        st = REMAT_ERROR_INFEASIBLE; /* nothing is known of it, or it cannot be */
    remat_scratch_close(scratch);
    return st;
}

static remat_status adapt(void *user, struct remat_arena *arena, const struct remat_graph *graph,
                          const struct remat_graph **out, const char **why)
{
    const struct adviser *a = user;
    return adapters_make(a->ctx, arena, a->args->operands[0], graph,
                         cli_text(a->args, OPTION_bind, ""), strtoll(ADVICE_LORA, NULL, 10), out,
                         why);
}

/* Only of a plan that is asked for alone, and is given all the time it takes. */
static bool is_advised(const struct cli_arguments *args)
{
    return !is_printed(args) && !cli_has(args, OPTION_curve) && !cli_has(args, OPTION_time_limit) &&
           !strstr(cli_text(args, OPTION_bind, ""), "=auto") && !cli_interrupted();
}

static remat_status make_advice(remat_context *ctx, struct remat_arena *arena,
                                const struct cli_arguments *args,
                                const struct remat_compile_settings *settings,
                                struct progress *progress, const struct advice_facts *facts,
                                struct advices *out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *parsed;
    struct adviser adviser = {ctx, args, progress};
    const struct advice_planner planner = {plan_advised, adapt, &adviser};
    if (!is_advised(args))
        return REMAT_OK;
    REMAT_TRY(model_read(ctx, arena, args->operands[0], &parsed));
    REMAT_TRY(advise(ctx, arena, parsed, settings, facts, &planner, out));
fail:
    return st;
}

static remat_status advise_planned(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct report *report)
{
    remat_status st = REMAT_OK;
    struct advice_facts facts;
    REMAT_TRY(advice_measure(arena, report->program, &facts));
    st = make_advice(ctx, arena, args, settings, progress, &facts, &report->advices);
fail:
    return st;
}

/* After REMAT_ERROR_INFEASIBLE, which stays with its message. */
static remat_status advise_refused(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct refusal_kept *refusal)
{
    const char *message = remat_arena_format(arena, "%s", remat_context_message(ctx));
    if (!message)
        return REMAT_ERROR_MEMORY;
    remat_status st = REMAT_OK;
    if (refusal->refusal.smallest_bytes)
        st = make_advice(ctx, arena, args, settings, progress, &refusal->facts, &refusal->advices);
    return st == REMAT_OK ? remat_error(ctx, REMAT_ERROR_INFEASIBLE, "%s", message) : st;
}

static remat_status make_fitting_report(remat_context *ctx, struct remat_arena *arena,
                                        const struct cli_arguments *args,
                                        struct remat_compile_settings *settings,
                                        struct progress *progress, struct report *report,
                                        struct cli_arguments *chosen)
{
    remat_status st = REMAT_OK;
    struct remat_graph *parsed;
    struct divisions *divisions;
    REMAT_TRY_NEW(arena, divisions, 1);
    REMAT_TRY(model_read(ctx, arena, args->operands[0], &parsed));
    REMAT_TRY(divisions_choose(ctx, arena, args, parsed, settings, progress, divisions, chosen));
    report->divisions = divisions->count ? divisions : NULL;
    st = make_divided_report(ctx, arena, chosen, parsed, settings, progress, report);
fail:
    return st;
}

static remat_status compile(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings settings, asked;
    struct report report = {.explanation = {.arena = arena}};
    struct observer observer;
    struct progress progress;
    struct refusal_kept refusal;
    struct cli_arguments chosen = *args;
    REMAT_TRY(claim_plan(arena, args, &report.path));
    REMAT_TRY(settings_read(ctx, arena, args, &settings));
    REMAT_TRY(check_curve(ctx, args, &settings));
    REMAT_TRY(explain_check(ctx, args));
    REMAT_TRY(observe(ctx, arena, args, &settings, &observer));
    REMAT_TRY(progress_start(ctx, args, &settings, &progress));
    refusal_watch(arena, args, &settings, &refusal);
    asked = settings; /* pieces and divisions change them */
    st = make_fitting_report(ctx, arena, args, &settings, &progress, &report, &chosen);
    if (st == REMAT_ERROR_INVALID)
        st = name_file(ctx, args->operands[0]);
    if (st == REMAT_ERROR_INFEASIBLE && !division_asked(args))
        st = advise_refused(ctx, arena, &chosen, &asked, &progress, &refusal);
    if (st == REMAT_ERROR_INFEASIBLE || (st == REMAT_ERROR_CUT_SHORT && refusal.proven_bytes))
        st = refusal_print(ctx, &refusal,
                           cli_choice(args, OPTION_format, 0) != 0 && !is_printed(args));
    else if (st == REMAT_ERROR_CUT_SHORT)
        explain_nothing(args);
    REMAT_TRY(st);
    if (report.program && cli_has(args, OPTION_explain))
        REMAT_TRY(explain(ctx, arena, args, report.program, 0, &report.explanation));
    if (report.program && !division_asked(args))
        REMAT_TRY(advise_planned(ctx, arena, &chosen, &asked, &progress, &report));
    if (report.program)
        REMAT_TRY(cubins_add(ctx, arena, args, &settings.device, report.program));
    REMAT_TRY(deliver(ctx, arena, args, &report));
fail:
    cli_release_interrupts();
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
