/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the command-line tools: options from one table, messages and exit codes.
 *
 * A tool's options are rows of tools/cli/TOOL.def; everything about them comes from there: the
 * parser, --help, --list-options, --man and the record of settings in a plan.
 *
 *     OPTION(identifier, long name, letter or 0, KIND, value name, accepted, group, help line)
 *
 *     #define CLI_OPTIONS "compile.def"
 *     #include "option_table.h" // OPTION_budget ..., OPTION_COUNT, options
 *     static const struct cli_tool tool = {.name = "remat-compile", ..., .options = options,
 *                                          .option_count = OPTION_COUNT};
 *
 *     static remat_status compile(remat_context *ctx, struct remat_arena *arena,
 *                                 const struct cli_arguments *args);
 *     int main(int argc, char **argv)
 *     {
 *         return cli_main(&tool, argc, argv, compile); // tool.h
 *     }
 *
 * Every tool also has --help (-h), --version (-V), --list-options and --man; they need no rows.
 * This header needs the public headers of libremat only. */
#ifndef REMAT_TOOLS_CLI_H
#define REMAT_TOOLS_CLI_H

#include <remat/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct remat_arena; /* base.h; remat-run, which sees public headers only, passes it on */

/* Kinds of options, and the meaning of `accepted`: FLAG: nothing, write ""; TEXT: shown, not
 * checked; CHOICE: "text|json"; LIST: words that may follow the first one, which is not checked:
 * they are joined by commas; INTEGER and NUMBER: a closed range "1..4096", either end may be absent
 * ("0.."), "" for any, then a word that is accepted too ("1..8|auto"); SIZE: "0.." if "0" is a size
 * too. Files, where `accepted` is shown: INPUT: one that is read ("-": standard input); NAME: one
 * if it ends in
 * ".json"; OUTPUT: one that is written, FOLDER: a folder that is. Before the tool runs, its outputs
 * are claimed, so none is another one or an input. A trailing "..." in the value name ("GLOB...")
 * lets the option be given several times; an INPUT takes all words up to the next option then. */
enum cli_kind {
    CLI_FLAG,
    CLI_TEXT,
    CLI_CHOICE,
    CLI_LIST,
    CLI_INTEGER,
    CLI_NUMBER,
    CLI_SIZE,
    CLI_INPUT,
    CLI_NAME,
    CLI_OUTPUT,
    CLI_FOLDER
};

struct cli_option {
    const char *name; /* "budget" */
    char letter;      /* 'o', or 0 */
    uint8_t kind;
    const char *value; /* "SIZE"; NULL for flags */
    const char *accepted;
    const char *group; /* heading in --help; rows of a group are adjacent */
    const char *help;  /* one line, no full stop */
};

#define CLI_OPTION_INDEX(identifier, ...) OPTION_##identifier,
#define CLI_OPTION_ROW(identifier, name, letter, kind, value, accepted, group, help)               \
    {name, letter, CLI_##kind, value, accepted, group, help},

struct cli_example {
    const char *purpose, *command;
};

struct cli_tool {
    const char *name;     /* "remat-compile" */
    const char *summary;  /* one sentence */
    const char *operands; /* as in the usage line: "MODEL" */
    const char *operand_help;
    uint8_t operand_kind; /* CLI_INPUT or CLI_NAME */
    uint32_t operands_min, operands_max;
    struct cli_example examples[3];
    const struct cli_option *options;
    uint32_t option_count;
    const char *more; /* heading of a last section of --help, or NULL, and who prints it */
    remat_status (*print_more)(remat_context *ctx);
};

struct cli_given { /* one option as given, in the order of the command line */
    uint32_t option;
    const char *value; /* "" for flags */
};

/* Values have been checked against the table, so reading them does not fail. Lives in the arena;
 * strings point into argv. */
struct cli_arguments {
    const struct cli_tool *tool;
    uint32_t given_count, operand_count;
    struct cli_given *given;
    const char *const *operands;
    struct remat_outputs *outputs; /* files.h: those given are claimed */
};

/* --- messages, for tools that see public headers only --- */
#if defined(__GNUC__)
#define CLI_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define CLI_PRINTF(at, first)
#endif
/* Stores the message in the context and returns `status`. */
remat_status cli_error(remat_context *ctx, remat_status status, const char *format, ...)
    CLI_PRINTF(3, 4);
/* The same for a call that failed with errno `reason`: "PATH: `what`REASON". */
remat_status cli_file_error(remat_context *ctx, const char *path, const char *what, int reason);
void cli_log(remat_context *ctx, remat_severity severity, const char *format, ...) CLI_PRINTF(3, 4);

/* Prints text that others wrote: control characters are shown, as in messages (remat/status.h). */
void cli_show(FILE *out, const char *text);
/* The same as a string of JSON, which has no bytes that are not UTF-8, as names of files may: those
 * are text, \\x9b. */
void cli_show_json(FILE *out, const char *text);

/* --- reading arguments --- */
bool cli_has(const struct cli_arguments *args, uint32_t option);
const char *cli_text(const struct cli_arguments *args, uint32_t option, const char *otherwise);
int64_t cli_integer(const struct cli_arguments *args, uint32_t option, int64_t otherwise);
double cli_number(const struct cli_arguments *args, uint32_t option, double otherwise);
/* Index of the choice within `accepted`, `otherwise` when absent. */
uint32_t cli_choice(const struct cli_arguments *args, uint32_t option, uint32_t otherwise);
/* Leaves *bytes alone when absent. `capacity`: what "N%" refers to, 0: unknown, then N% fails. */
remat_status cli_size(remat_context *ctx, const struct cli_arguments *args, uint32_t option,
                      uint64_t capacity, uint64_t *bytes);
/* All values of an option that may be repeated, in order; NULL when out of memory. */
const char *const *cli_texts(struct remat_arena *arena, const struct cli_arguments *args,
                             uint32_t option, uint32_t *count);

/* The file `name` in the folder that the first `length` bytes of `path` name, none: the working
 * folder; NULL when out of memory. */
const char *cli_join(struct remat_arena *arena, const char *path, size_t length, const char *name);

/* --- parts of cli_main, for tests --- */
/* Sets *done when the arguments asked for help, version, options or the man page, which it has then
 * printed on stdout. */
remat_status cli_parse(remat_context *ctx, struct remat_arena *arena, const struct cli_tool *tool,
                       int argc, char **argv, struct cli_arguments *out, bool *done);

void cli_print_help(const struct cli_tool *tool);
void cli_print_options(
    const struct cli_tool *tool); /* a line each: name, kind, value, accepted, help */
void cli_print_man(const struct cli_tool *tool);

#endif
