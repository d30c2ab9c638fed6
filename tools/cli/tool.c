/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of every tool's main: its files are claimed before it runs and moved into place after
 * all that it says. */
#include "tool.h"

#include "base.h"
#include "file.h"
#include "files.h"
#include "interrupt.h"
#include "line.h"
#include "unwind.h"
#include "wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

/* --- files --- */

remat_status cli_open_file(remat_context *ctx, const char *path, FILE **out, uint64_t *bytes)
{
    return remat_file_open(ctx, path, out, bytes);
}

static bool is_input(uint8_t kind, const char *value)
{
    const char *ending = strrchr(value, '.');
    return kind == CLI_INPUT || (kind == CLI_NAME && ending && strcmp(ending, ".json") == 0);
}

static const char *input_path(const char *value)
{
    return strcmp(value, "-") == 0 ? "/dev/stdin" : value;
}

/* Inputs first: an output must be none of them. */
static remat_status claim_files(remat_context *ctx, struct remat_arena *arena,
                                struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    const struct cli_tool *tool = args->tool;
    const char **labels;
    REMAT_TRY(remat_outputs_create(ctx, &args->outputs));
    REMAT_TRY_NEW(arena, labels, args->given_count);
    for (uint32_t i = 0; i < args->operand_count; i++)
        if (is_input(tool->operand_kind, args->operands[i]))
            REMAT_TRY(
                remat_outputs_input(args->outputs, tool->operands, input_path(args->operands[i])));
    for (uint32_t i = 0; i < args->given_count; i++) {
        const struct cli_option *option = &tool->options[args->given[i].option];
        labels[i] = remat_arena_format(arena, "--%s", option->name);
        if (!labels[i])
            return REMAT_ERROR_MEMORY;
        if (is_input(option->kind, args->given[i].value))
            REMAT_TRY(
                remat_outputs_input(args->outputs, labels[i], input_path(args->given[i].value)));
    }
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint8_t kind = tool->options[args->given[i].option].kind;
        if (kind == CLI_OUTPUT)
            REMAT_TRY(remat_outputs_claim(args->outputs, labels[i], args->given[i].value));
        else if (kind == CLI_FOLDER)
            REMAT_TRY(remat_outputs_claim_folder(args->outputs, labels[i], args->given[i].value));
    }
fail:
    return st;
}

remat_status cli_write(remat_context *ctx, const struct cli_arguments *args, uint32_t option,
                       const void *data, size_t bytes)
{
    const char *path = cli_text(args, option, NULL);
    if (path)
        return remat_outputs_write(args->outputs, path, data, bytes);
    if (fwrite(data, 1, bytes, stdout) != bytes)
        return remat_file_error(ctx, "standard output", "", errno);
    return REMAT_OK;
}

/* --- JSON: whichever allocation of the library's fails, the command does --- */

static bool json_incomplete;

static void *allocate_json(size_t bytes)
{
    void *block = malloc(bytes);
    json_incomplete |= !block;
    return block;
}

/* --- main --- */

/* Opens closed standard streams, each so that it cannot be used. */
static bool hold_standard_streams(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 &&
            open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            return false;
    return true;
}

static void log_to_stderr(void *user, remat_severity severity, const char *text)
{
    const struct cli_tool *tool = user;
    static const char *const names[] = {"debug: ", "", "warning: "};
    cli_line_hide();
    cli_print(stderr, "%s: %s%s\n", tool->name, names[severity], text);
    cli_line_back();
}

static const char *explanation = "";

void cli_explain(const char *lines)
{
    explanation = lines;
}

static void print_error(const struct cli_tool *tool, remat_context *ctx, remat_status status)
{
    const char *message = remat_context_message(ctx);
    cli_line_end();
    cli_print(stderr, "%s: error: %s\n", tool->name, *message ? message : "unknown failure");
    cli_print(stderr, "%s", explanation);
    if (status == REMAT_ERROR_USAGE)
        cli_print(stderr, "Try '%s --help'.\n", tool->name);
}

const char *cli_producer(void)
{
    return "remat " REMAT_VERSION;
}

static bool files_kept, ended_early;

void cli_keep_files(void)
{
    files_kept = true;
}

void cli_end_early(void)
{
    ended_early = true;
}

/* All that a tool has to say must have been said before its files are moved, unless the terminal is
 * gone or the files matter more. */
remat_status cli_finish(remat_context *ctx, const struct cli_arguments *args)
{
    remat_status said = REMAT_OK;
    if (json_incomplete)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    if ((fflush(stdout) != 0 || ferror(stdout)) && !cli_hung_up())
        said = remat_file_error(ctx, "standard output", "", errno ? errno : EIO);
    if (said != REMAT_OK && !files_kept)
        return said;
    remat_status moved = args->outputs ? remat_outputs_commit(args->outputs) : REMAT_OK;
    return moved ? moved : said;
}

struct tool_call {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct cli_arguments *args;
    remat_status (*run)(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args);
};

static remat_status run_call(void *user)
{
    const struct tool_call *call = user;
    return call->run(call->ctx, call->arena, call->args);
}

int cli_main(const struct cli_tool *tool, int argc, char **argv,
             remat_status (*run)(remat_context *ctx, struct remat_arena *arena,
                                 const struct cli_arguments *args))
{
    remat_logger logger = {log_to_stderr, (void *)tool};
    signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f` a write fails */
    if (!hold_standard_streams())
        return REMAT_ERROR_IO;
    remat_context *ctx = remat_context_create(NULL, &logger);
    if (!ctx) {
        fprintf(stderr, "%s: error: out of memory\n", tool->name);
        return REMAT_ERROR_MEMORY;
    }
    struct remat_arena arena;
    struct cli_arguments args;
    bool done;
    json_set_alloc_funcs(allocate_json, free);
    remat_arena_init(&arena, ctx);
    remat_status st = cli_parse(ctx, &arena, tool, argc, argv, &args, &done);
    if (st == REMAT_OK && !done)
        st = claim_files(ctx, &arena, &args);
    if (st == REMAT_OK && !done)
        st = remat_guard(ctx, run_call, &(struct tool_call){ctx, &arena, &args, run});
    if (json_incomplete) /* whatever came of it */
        st = remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    if (st == REMAT_OK || st == REMAT_ERROR_NOT_FINITE) {
        remat_status finished = cli_finish(ctx, &args);
        st = finished ? finished : st;
    }
    remat_outputs_destroy(&args.outputs);
    if (st != REMAT_OK) {
        fflush(stdout);
        print_error(tool, ctx, st);
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return st == REMAT_OK && ended_early ? REMAT_ERROR_RANK_LOST : (int)st;
}

remat_status cli_cache_folder(remat_context *ctx, const char *given, char *out, size_t bytes)
{
    const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    *out = 0;
    if (given && strcmp(given, "none") != 0)
        length = snprintf(out, bytes, "%s", given);
    else if (!given && folder && *folder)
        length = snprintf(out, bytes, "%s/remat", folder);
    else if (!given && home && *home)
        length = snprintf(out, bytes, "%s/.cache/remat", home);
    return length < (int)bytes ? REMAT_OK
                               : cli_error(ctx, REMAT_ERROR_USAGE, "--cache: the name is too long");
}
