/* SPDX-License-Identifier: Apache-2.0 */
/* remat-dump: what a plan or a graph says, for people and for programs. */
#include "check.h"
#include "dump_graph.h"
#include "emit_policy.h"
#include "file.h"
#include "formats.h"
#include "graph_file.h"
#include "graph_text.h"
#include "program.h"
#include "replan.h"
#include "report_html.h"
#include "run_html.h"
#include "snapshot_peak.h"
#include "step_lines.h"
#include "tool.h"
#include "views.h"

#include <stdlib.h>

#define CLI_OPTIONS "dump.def"
#include "option_table.h"

static const struct cli_tool tool = {
    .name = "remat-dump",
    .summary = "Shows a plan (decisions, memory, schedule, kernels), a graph, or the log of a run.",
    .operands = "FILE",
    .operand_help = "a plan, a graph (docs/ir.md), or a log of remat-run",
    .operand_kind = CLI_INPUT,
    .operands_min = 1,
    .operands_max = 1,
    .examples = {{"cost of the plan", "remat-dump model.plan"},
                 {"bytes live at the peak", "remat-dump model.plan --memory"},
                 {"whether its CUDA code matches its commands", "remat-dump model.plan --check"}},
    .options = options,
    .option_count = OPTION_COUNT,
};

enum { NO_VIEW = OPTION_COUNT };

/* What --format accepts, in that order. */
enum format {
    FORMAT_TEXT,
    FORMAT_JSON,
    FORMAT_CSV,
    FORMAT_TRACE,
    FORMAT_HTML,
    FORMAT_SNAPSHOT,
    FORMAT_DOT
};
static const struct {
    dump_file file; /* NULL: a form of every view */
    uint32_t view;  /* a form of this view; NO_VIEW: a file of its own */
    bool own;       /* a file of its own too */
} formats[] = {
    [FORMAT_TEXT] = {NULL, NO_VIEW, false},
    [FORMAT_JSON] = {NULL, NO_VIEW, false},
    [FORMAT_CSV] = {dump_memory_csv, OPTION_memory, false},
    [FORMAT_TRACE] = {dump_step_trace, NO_VIEW, true},
    [FORMAT_HTML] = {dump_report_html, OPTION_diff, true},
    [FORMAT_SNAPSHOT] = {dump_snapshot, NO_VIEW, true},
    [FORMAT_DOT] = {dump_dot, NO_VIEW, true},
};

static const struct {
    dump_text_view text;
    dump_json_view json;
} views[] = {
    [OPTION_summary] = {dump_summary_text, dump_summary_json},
    [OPTION_decisions] = {dump_decisions_text, dump_decisions_json},
    [OPTION_memory] = {dump_memory_text, dump_memory_json},
    [OPTION_at] = {dump_at_text, dump_at_json},
    [OPTION_placement] = {dump_placement_text, dump_placement_json},
    [OPTION_schedule] = {dump_schedule_text, dump_schedule_json},
    [OPTION_kernels] = {dump_kernels_text, dump_kernels_json},
    [OPTION_diff] = {dump_diff_text, dump_diff_json},
    [OPTION_why] = {dump_why_text, dump_why_json},
};

struct request {
    uint32_t view; /* OPTION_summary ... OPTION_check */
    enum format format;
    const char *format_name;
    struct dump_asked asked;
    const char *nvrtc;                 /* of OPTION_check */
    const char *other;                 /* of OPTION_diff */
    enum policy_framework emit_policy; /* of OPTION_emit_policy */
    const char *model;                 /* of that */
};

static remat_status read_request(remat_context *ctx, struct remat_arena *arena,
                                 const struct cli_arguments *args, struct request *out)
{
    uint32_t given = 0;
    *out = (struct request){
        OPTION_summary,
        (enum format)cli_choice(args, OPTION_format, 0),
        cli_text(args, OPTION_format, "text"),
        {.segment = cli_text(args, OPTION_segment, NULL),
         .command = cli_text(args, OPTION_at, NULL),
         .layer = cli_text(args, OPTION_layer, NULL),
         .curve = cli_text(args, OPTION_curve, NULL),
         .with = cli_text(args, OPTION_with, NULL)},
        cli_text(args, OPTION_nvrtc, NULL),
        cli_text(args, OPTION_diff, NULL),
        (enum policy_framework)cli_choice(args, OPTION_emit_policy, 0),
        cli_text(args, OPTION_model, NULL),
    };
    out->asked.globs = cli_texts(arena, args, OPTION_why, &out->asked.glob_count);
    if (!out->asked.globs)
        return REMAT_ERROR_MEMORY;
    for (uint32_t view = OPTION_summary; view <= OPTION_check; view++) {
        if (!cli_has(args, view))
            continue;
        if (given++)
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s and --%s: one view at a time",
                               options[out->view].name, options[view].name);
        out->view = view;
    }
    if (formats[out->format].file) {
        uint32_t view = formats[out->format].view;
        if (!formats[out->format].own && out->view != view)
            return remat_error(ctx, REMAT_ERROR_USAGE, "--format %s needs --%s", out->format_name,
                               options[view].name);
        if (given && out->view != view)
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s and --format %s: one of them",
                               options[out->view].name, out->format_name);
    }
    if ((out->view == OPTION_text || out->view == OPTION_emit_policy) && out->format != FORMAT_TEXT)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s and --format %s: one of them",
                           options[out->view].name, out->format_name);
    if (cli_has(args, OPTION_segment) && out->view != OPTION_schedule && out->view != OPTION_at)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--segment needs --schedule or --at");
    if (cli_has(args, OPTION_layer) && out->format != FORMAT_DOT)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--layer needs --format dot");
    if (out->model && out->view != OPTION_emit_policy)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--model needs --emit-policy");
    if (out->nvrtc && out->view != OPTION_check)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--nvrtc needs --check");
    bool beside = out->view == OPTION_memory && !formats[out->format].file;
    if (out->asked.curve && out->format != FORMAT_HTML)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--curve needs --format html");
    if (out->asked.with && out->format != FORMAT_HTML && !beside)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--with needs --format html or --memory");
    return REMAT_OK;
}

static remat_status emit_policy(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, struct request request,
                                struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct policy policy;
    struct remat_program *planned = NULL;
    REMAT_TRY(policy_find(arena, program, request.emit_policy, &policy));
    if (request.model)
        REMAT_TRY(replan(ctx, arena, request.model, program, policy.saved.items,
                         (uint32_t)policy.saved.count, &planned));
    REMAT_TRY(policy_print(arena, &policy, policy.differences.count ? planned : program, out));
fail:
    return st;
}

static bool is_plan(const char *data, size_t bytes)
{
    return bytes >= 8 && memcmp(data + 4, "RMP1", 4) == 0;
}

static remat_status read_other(remat_context *ctx, struct remat_arena *arena, const char *path,
                               const struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct remat_program *other;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    if (!is_plan(data, bytes))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "--diff %s: the file is no plan", path);
    REMAT_TRY(remat_program_read(ctx, path, data, bytes, arena, &other));
    *out = other;
fail:
    return st;
}

static remat_status dump_plan(remat_context *ctx, struct remat_arena *arena, const char *path,
                              const struct remat_program *program, struct request request,
                              struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_json json = {0};
    struct check check = {0};
    if (request.view == OPTION_text)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--text needs a graph, and %s is a plan", path);
    if (request.view == OPTION_check)
        REMAT_TRY(check_plan(ctx, arena, path, program, request.nvrtc, &check));
    if (request.view == OPTION_diff)
        REMAT_TRY(read_other(ctx, arena, request.other, &request.asked.other));
    if (formats[request.format].file)
        REMAT_TRY(formats[request.format].file(ctx, arena, program, &request.asked, out));
    else if (request.view == OPTION_emit_policy)
        REMAT_TRY(emit_policy(ctx, arena, program, request, out));
    else if (request.format == FORMAT_TEXT && request.view == OPTION_check)
        check_print(&check, program, out);
    else if (request.format == FORMAT_TEXT) {
        REMAT_TRY(views[request.view].text(ctx, arena, program, &request.asked, out));
        if (request.asked.with)
            REMAT_TRY(dump_beside_text(ctx, arena, program, request.asked.with, out));
    } else {
        json.object = json_object();
        dump_set(&json, "schema", json_string("remat-plan/1"));
        if (request.view == OPTION_check)
            check_set(&check, program, &json);
        else
            REMAT_TRY(views[request.view].json(ctx, arena, program, &request.asked, &json));
        if (request.asked.with)
            REMAT_TRY(dump_beside_json(ctx, arena, request.asked.with, &json));
        REMAT_TRY(dump_print_json(ctx, &json, out));
    }
fail:
    json_decref(json.object);
    return st;
}

/* Sizes are those of the bound graph. */
static remat_status dump_graph(remat_context *ctx, struct remat_arena *arena, const char *path,
                               const struct remat_graph *graph, struct request request,
                               struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *bound;
    struct dump_json json = {0};
    if (formats[request.format].file && request.format != FORMAT_DOT)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--format %s needs a plan, and %s is a graph",
                   request.format_name, path);
    if (request.view != OPTION_text && request.view != OPTION_summary)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--%s needs a plan, and %s is a graph",
                   options[request.view].name, path);
    if (request.view == OPTION_text) {
        remat_graph_print(graph, out);
        return REMAT_OK;
    }
    REMAT_TRY(remat_graph_file_bind(ctx, path, arena, graph, &bound));
    if (request.format == FORMAT_DOT)
        REMAT_TRY(dump_graph_dot(ctx, arena, bound, request.asked.layer, out));
    else if (request.format == FORMAT_TEXT)
        dump_graph_text(graph, bound, out);
    else {
        json.object = json_object();
        dump_set(&json, "schema", json_string("remat-graph/1"));
        dump_graph_json(graph, bound, &json);
        REMAT_TRY(dump_print_json(ctx, &json, out));
    }
fail:
    json_decref(json.object);
    return st;
}

/* All that can be asked of a log is a page. */
static remat_status dump_log(remat_context *ctx, struct remat_arena *arena, const char *path,
                             const char *data, size_t bytes, const struct cli_arguments *args,
                             enum format format, struct remat_text *out)
{
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint32_t option = args->given[i].option;
        if (option != OPTION_format && option != OPTION_output)
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s needs a plan, and %s is a log",
                               options[option].name, path);
    }
    if (format != FORMAT_HTML)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s is a log: --format html draws it", path);
    return dump_run_html(ctx, arena, path, data, bytes, out);
}

static remat_status dump(remat_context *ctx, struct remat_arena *arena,
                         const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    const char *path = args->operands[0];
    struct request request;
    struct remat_text out = {.arena = arena};
    char *data;
    size_t bytes;
    REMAT_TRY(read_request(ctx, arena, args, &request));
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    if (is_plan(data, bytes)) {
        struct remat_program *program;
        if (cli_has(args, OPTION_bind))
            REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind needs a graph, and %s is a plan", path);
        REMAT_TRY(remat_program_read(ctx, path, data, bytes, arena, &program));
        REMAT_TRY(dump_plan(ctx, arena, path, program, request, &out));
    } else if (step_lines_begin(data, bytes))
        REMAT_TRY(dump_log(ctx, arena, path, data, bytes, args, request.format, &out));
    else {
        struct remat_graph *graph;
        REMAT_TRY(remat_graph_file_parse(ctx, path, data, bytes, arena, &graph));
        REMAT_TRY(remat_graph_set_symbols(ctx, path, cli_text(args, OPTION_bind, ""), graph));
        REMAT_TRY(dump_graph(ctx, arena, path, graph, request, &out));
    }
    if (out.failed)
        REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    st = cli_write(ctx, args, OPTION_output, out.items, out.count);
fail:
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, dump);
}
