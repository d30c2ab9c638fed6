/* SPDX-License-Identifier: Apache-2.0 */
/* remat-compile: a training graph and a memory budget, or a policy, into a plan. */
#include "adapters.h"
#include "advice_options.h"
#include "asked_settings.h"
#include "asking.h"
#include "cubins_option.h"
#include "curve_file.h"
#include "emit_cuda.h"
#include "explain.h"
#include "files.h"
#include "graph_file.h"
#include "interrupt.h"
#include "observe.h"
#include "options.h"
#include "plan_lines.h"
#include "planned.h"
#include "profile.h"
#include "program.h"
#include "progress.h"
#include "refusal_text.h"
#include "report.h"
#include "tool.h"

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

/* Lines about the plan that a report has. */
static remat_status describe_plan(struct remat_arena *arena, const struct cli_arguments *args,
                                  const struct remat_planned *planned, struct report *report)
{
    remat_status st = REMAT_OK;
    uint8_t *extents;
    struct remat_program *program = planned->program;
    struct remat_text manuals = {.arena = arena}, certificate = {.arena = arena};
    struct remat_text costs = {.arena = arena};
    report->program = program;
    report->chosen = planned->chosen;
    REMAT_TRY(remat_static_parts_measure(arena, program, &report->parts));
    REMAT_TRY_NEW(arena, extents, program->layer_count);
    remat_program_layer_extents(program, extents);
    report->layer_extents = extents;
    manuals_print(program, 13, &manuals);
    report->manuals = manuals.items ? manuals.items : "";
    certificate_print(program, &certificate);
    report->certificate = certificate.items ? certificate.items : "";
    costs_print(program, &costs);
    if (!planned->settings.device.profile)
        report->profile_beside = remat_profile_beside(arena, cli_text(args, OPTION_target, "cpu"),
                                                      &planned->settings.device);
    if (report->profile_beside) {
        remat_text_append(&costs, "; a measured profile: --profile ");
        remat_shell_word_append(&costs, report->profile_beside);
    }
    report->costs = costs.items ? costs.items : "";
fail:
    return st;
}

/* The curve, with the plan on it if there is one, and with settings of other systems, none of which
 * has pins; passes are observed once. */
static remat_status make_curve(const struct remat_request *r, const struct cli_arguments *args,
                               const struct remat_planned *planned, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings unobserved = planned->settings;
    struct remat_front *front;
    struct remat_graph *symbols;
    struct remat_policies policies = {0};
    if (!cli_has(args, OPTION_curve))
        return REMAT_OK;
    if (report->program) {
        unobserved.after_pass = NULL;
        unobserved.pass_time = NULL;
        unobserved.is_late = NULL;
    }
    REMAT_TRY_NEW(r->arena, front, 1);
    if (!remat_has_pins(planned->graph, &unobserved.search.policy))
        REMAT_TRY(curve_picture_policies(r->ctx, r->arena, planned->graph, &policies));
    front->plan = report->program;
    front->policies = policies.items;
    front->policy_count = (uint32_t)policies.count;
    REMAT_TRY(remat_compile_front(r->ctx, r->arena, planned->graph, &unobserved, front));
    REMAT_TRY(curve_picture_mark(r->arena, front, &report->picture));
    report->front = front;
    report->curve_path = cli_text(args, OPTION_curve, NULL);
    symbols = remat_graph_copy(r->arena, r->graph, 1);
    REMAT_TRY(remat_graph_set_symbols(r->ctx, args->operands[0], planned->bindings, symbols));
    REMAT_TRY(curve_picture_name(r->arena, symbols, &planned->settings, &report->picture));
fail:
    return st;
}

/* --- advice --- */

static remat_status adapt(void *user, struct remat_arena *arena, const struct remat_graph *graph,
                          const struct remat_graph **out, const char **why)
{
    const struct cli_arguments *args = user;
    return adapters_make(arena->ctx, arena, args->operands[0], graph,
                         cli_text(args, OPTION_bind, ""), strtoll(ADVICE_LORA, NULL, 10), out, why);
}

/* Only of a plan that is asked for alone, and is given all the time it takes. */
static bool is_advised(const struct cli_arguments *args)
{
    return !is_printed(args) && !cli_has(args, OPTION_curve) && !cli_has(args, OPTION_time_limit) &&
           !strstr(cli_text(args, OPTION_bind, ""), "=auto") && !cli_interrupted();
}

static remat_status make_advice(const struct remat_request *r, const struct cli_arguments *args,
                                const struct remat_planned *planned,
                                const struct remat_advice_facts *facts, struct remat_advices *out)
{
    return is_advised(args)
               ? remat_planned_advise(r, &planned->asked, facts, adapt, (void *)args, out)
               : REMAT_OK;
}

static remat_status advise_planned(const struct remat_request *r, const struct cli_arguments *args,
                                   const struct remat_planned *planned, struct report *report)
{
    remat_status st = REMAT_OK;
    struct remat_advice_facts facts;
    REMAT_TRY(remat_advice_measure(r->arena, report->program, &facts));
    st = make_advice(r, args, planned, &facts, &report->advices);
fail:
    return st;
}

/* After REMAT_ERROR_INFEASIBLE, which stays with its message. */
static remat_status advise_refused(const struct remat_request *r, const struct cli_arguments *args,
                                   const struct remat_planned *planned,
                                   struct refusal_kept *refusal)
{
    const char *message = remat_arena_format(r->arena, "%s", remat_context_message(r->ctx));
    if (!message)
        return REMAT_ERROR_MEMORY;
    remat_status st = REMAT_OK;
    if (refusal->refusal.smallest_bytes)
        st = make_advice(r, args, planned, &refusal->facts, &refusal->advices);
    return st == REMAT_OK ? remat_error(r->ctx, REMAT_ERROR_INFEASIBLE, "%s", message) : st;
}

/* A plan, unless only a curve was asked for, and that. */
static remat_status make_report(const struct remat_request *r, const struct cli_arguments *args,
                                struct remat_planned *planned, struct report *report)
{
    remat_status st = REMAT_OK;
    bool without_plan = cli_has(args, OPTION_curve) && !r->settings.search.has_budget;
    st = remat_plan_asked(r, without_plan, planned);
    report->divisions = planned->divisions;
    report->sizes = planned->sizes;
    if (report->divisions && report->divisions->reasons)
        cli_explain(report->divisions->reasons);
    REMAT_TRY(st);
    if (planned->program)
        REMAT_TRY(describe_plan(r->arena, args, planned, report));
    REMAT_TRY(make_curve(r, args, planned, report));
fail:
    return st;
}

static remat_status compile(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_asked asked;
    struct remat_request r = {.ctx = ctx, .arena = arena, .asked = &asked};
    struct remat_planned planned;
    struct report report = {.explanation = {.arena = arena}};
    struct observer observer;
    struct progress progress;
    struct refusal_kept refusal;
    struct remat_graph *graph;
    REMAT_TRY(claim_plan(arena, args, &report.path));
    REMAT_TRY(asking(arena, args, &asked));
    REMAT_TRY(remat_settings_read(ctx, arena, &asked, &r.settings));
    REMAT_TRY(cubins_check(ctx, args));
    if (cli_has(args, OPTION_emit_cuda))
        REMAT_TRY(emit_cuda_check(ctx, cli_text(args, OPTION_emit_cuda, "")));
    r.settings.needs_cuda = cubins_asked(args) || cli_has(args, OPTION_emit_cuda);
    REMAT_TRY(check_curve(ctx, args, &r.settings));
    REMAT_TRY(explain_check(ctx, args));
    REMAT_TRY(observe(ctx, arena, args, &r.settings, &observer));
    REMAT_TRY(progress_start(ctx, args, &asked, &r.settings, &progress));
    if (r.settings.search.is_over) {
        r.is_over = progress_is_over;
        r.look = progress_look;
        r.user = &progress;
    }
    refusal_watch(arena, args, &r.settings, &refusal);
    REMAT_TRY(remat_graph_file_read(ctx, args->operands[0], arena, &graph));
    r.graph = graph;
    st = make_report(&r, args, &planned, &report);
    if (st == REMAT_ERROR_INVALID)
        st = name_file(ctx, args->operands[0]);
    if (st == REMAT_ERROR_INFEASIBLE && !remat_division_asked(&asked))
        st = advise_refused(&r, args, &planned, &refusal);
    if (st == REMAT_ERROR_INFEASIBLE || (st == REMAT_ERROR_CUT_SHORT && refusal.proven_bytes))
        st = refusal_print(ctx, &refusal,
                           cli_choice(args, OPTION_format, 0) != 0 && !is_printed(args));
    else if (st == REMAT_ERROR_CUT_SHORT)
        explain_nothing(args);
    REMAT_TRY(st);
    if (report.program && cli_has(args, OPTION_explain))
        REMAT_TRY(explain(ctx, arena, args, report.program, 0, &report.explanation));
    if (report.program && !remat_division_asked(&asked))
        REMAT_TRY(advise_planned(&r, args, &planned, &report));
    if (report.program)
        REMAT_TRY(cubins_add(ctx, arena, args, &planned.settings.device, report.program));
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
