/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing by a table, over getopt_long. */
#include "cli.h"
#include "base.h"
#include "file.h"
#include "show.h"
#include "size.h"
#include "suggest.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define CLI_NONE UINT32_MAX
enum { CODE_HELP = 1000, CODE_VERSION, CODE_LIST, CODE_MAN, CODE_OPTION };

static const struct option common[] = {
    {"help", no_argument, NULL, CODE_HELP},
    {"version", no_argument, NULL, CODE_VERSION},
    {"list-options", no_argument, NULL, CODE_LIST},
    {"man", no_argument, NULL, CODE_MAN},
};
enum { COMMON_COUNT = sizeof common / sizeof *common };

/* --- messages --- */

remat_status cli_error(remat_context *ctx, remat_status status, const char *format, ...)
{
    char text[sizeof ctx->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return remat_error(ctx, status, "%s", text);
}

remat_status cli_file_error(remat_context *ctx, const char *path, const char *what, int reason)
{
    return remat_file_error(ctx, path, what, reason);
}

void cli_log(remat_context *ctx, remat_severity severity, const char *format, ...)
{
    char text[sizeof ctx->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    remat_log(ctx, severity, "%s", text);
}

void cli_show(FILE *out, const char *text)
{
    char shown[REMAT_SHOWN_BYTES];
    while (remat_show(&text, shown))
        fputs(shown, out);
}

void cli_show_json(FILE *out, const char *text)
{
    char shown[REMAT_SHOWN_BYTES];
    fputc('"', out);
    while (*text) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text++);
        else if (remat_show(&text, shown))
            fprintf(out, "%s%s", shown[0] == '\\' && shown[1] == 'x' ? "\\" : "", shown);
    }
    fputc('"', out);
}

/* --- names --- */

static const char *option_name(const void *user, uint32_t i)
{
    const struct cli_tool *tool = user;
    return i < tool->option_count ? tool->options[i].name : common[i - tool->option_count].name;
}

static remat_status fail_unknown(remat_context *ctx, const struct cli_tool *tool, const char *given)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    return remat_error(
        ctx, REMAT_ERROR_USAGE, "unknown option '--%s'%s", name,
        remat_suggest("--", name, option_name, tool, tool->option_count + COMMON_COUNT).text);
}

/* --- values --- */

static bool repeatable(const struct cli_option *option)
{
    size_t length = option->value ? strlen(option->value) : 0;
    return length > 3 && strcmp(option->value + length - 3, "...") == 0;
}

/* All words up to the next option: what the shell made of a pattern. */
static bool takes_list(const struct cli_option *option)
{
    return option->kind == CLI_INPUT && repeatable(option);
}

static bool find_choice(const char *accepted, const char *text, uint32_t *out)
{
    for (uint32_t i = 0;; i++) {
        size_t length = strcspn(accepted, "|");
        if (strlen(text) == length && strncmp(accepted, text, length) == 0) {
            *out = i;
            return true;
        }
        if (accepted[length] == 0)
            return false;
        accepted += length + 1;
    }
}

/* "1..4096", "0..", "" */
static bool in_range(const char *accepted, double value)
{
    const char *dots = strstr(accepted, "..");
    if (!dots)
        return true;
    if (dots != accepted && value < strtod(accepted, NULL))
        return false;
    return dots[2] == 0 || dots[2] == '|' || value <= strtod(dots + 2, NULL);
}

/* An integer beyond 64 bits is out of range; where the table has no range, it becomes the nearest
 * one, and whoever knows the range refuses it. */
static remat_status check_number(remat_context *ctx, const struct cli_option *option,
                                 const char *text)
{
    char *end;
    const char *word = strchr(option->accepted, '|');
    if (word && strcmp(text, word + 1) == 0)
        return REMAT_OK;
    errno = 0;
    bool whole = option->kind == CLI_INTEGER;
    double value = whole ? (double)strtoll(text, &end, 10) : strtod(text, &end);
    bool number = *text && *end == 0 && !(*text == ' ') && isfinite(value);
    bool beyond = whole && errno == ERANGE;
    if (!number)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s '%s' is not %s%s%s%s", option->name, text,
                           whole ? "an integer" : "a number",
                           *option->accepted ? " (accepted: " : "", option->accepted,
                           *option->accepted ? ")" : "");
    if (beyond && *option->accepted && in_range(option->accepted, value))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--%s %s is out of range (accepted: %s%" PRId64 ")", option->name, text,
                           option->accepted, INT64_MAX);
    if (!in_range(option->accepted, value))
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s %s is out of range (accepted: %s)",
                           option->name, text, option->accepted);
    return REMAT_OK;
}

static bool may_be_zero(const struct cli_option *option)
{
    return strcmp(option->accepted, "0..") == 0;
}

static remat_status check_value(remat_context *ctx, const struct cli_option *option,
                                const char *text)
{
    uint32_t choice;
    uint64_t bytes;
    char setting[64];
    switch (option->kind) {
    case CLI_CHOICE:
        if (!find_choice(option->accepted, text, &choice))
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s '%s' is unknown (accepted: %s)",
                               option->name, text, option->accepted);
        return REMAT_OK;
    case CLI_INTEGER:
    case CLI_NUMBER:
        return check_number(ctx, option, text);
    case CLI_SIZE: /* the capacity that N% refers to is known later */
        snprintf(setting, sizeof setting, "--%s", option->name);
        return remat_size_parse(ctx, setting, text, UINT32_MAX, may_be_zero(option), &bytes);
    case CLI_TEXT:
    case CLI_LIST:
    case CLI_INPUT:
    case CLI_NAME:
    case CLI_OUTPUT:
    case CLI_FOLDER:
        if (*text == 0)
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s needs a value that is not empty",
                               option->name);
        return REMAT_OK;
    default:
        return REMAT_OK;
    }
}

static remat_status take_option(remat_context *ctx, struct cli_arguments *args, uint32_t index,
                                const char *value)
{
    const struct cli_option *option = &args->tool->options[index];
    if (cli_has(args, index) && !repeatable(option))
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s is given twice", option->name);
    args->given[args->given_count++] = (struct cli_given){index, value ? value : ""};
    return option->kind == CLI_FLAG ? REMAT_OK : check_value(ctx, option, value);
}

/* Words of a LIST, the last one given: "core_attn", "mlp" is "core_attn,mlp". Others may follow. */
static remat_status take_words(struct remat_arena *arena, struct cli_arguments *args,
                               const char *accepted, int argc, char *const *argv)
{
    struct cli_given *given = &args->given[args->given_count - 1];
    uint32_t choice;
    for (; optind < argc && find_choice(accepted, argv[optind], &choice); optind++) {
        given->value = remat_arena_format(arena, "%s,%s", given->value, argv[optind]);
        if (!given->value)
            return REMAT_ERROR_MEMORY;
    }
    return REMAT_OK;
}

/* --- parsing --- */

static remat_status make_getopt_tables(struct remat_arena *arena, const struct cli_tool *tool,
                                       struct option **out_long, char **out_short)
{
    remat_status st = REMAT_OK;
    struct option *options;
    REMAT_TRY_NEW(arena, options, tool->option_count + COMMON_COUNT + 1);
    struct remat_text letters = {.arena = arena};
    remat_text_append(&letters, ":hV");
    for (uint32_t i = 0; i < tool->option_count; i++) {
        const struct cli_option *o = &tool->options[i];
        int has_value = o->kind == CLI_FLAG ? no_argument : required_argument;
        options[i] = (struct option){o->name, has_value, NULL, CODE_OPTION + (int)i};
        if (o->letter)
            remat_text_append(&letters, "%c%s", o->letter, has_value ? ":" : "");
    }
    memcpy(options + tool->option_count, common, sizeof common);
    if (letters.failed)
        return REMAT_ERROR_MEMORY;
    *out_long = options;
    *out_short = letters.items;
fail:
    return st;
}

static uint32_t find_letter(const struct cli_tool *tool, int letter)
{
    for (uint32_t i = 0; i < tool->option_count; i++)
        if (tool->options[i].letter == letter)
            return i;
    return CLI_NONE;
}

/* How many words of argv `word` takes: 2 when its value is the next one. */
static int word_count(const struct cli_tool *tool, const char *word)
{
    for (word++; *word; word++) {
        uint32_t index = find_letter(tool, *word);
        if (index != CLI_NONE && tool->options[index].kind != CLI_FLAG)
            return word[1] ? 1 : 2;
    }
    return 1;
}

static bool same_name(const char *word, const char *name)
{
    size_t length = strcspn(word, "=");
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

/* The row of a long option, "--name" or "--name=value"; all rows: it is none. */
static uint32_t find_long(const struct cli_tool *tool, const char *word)
{
    uint32_t row = 0, rows = tool->option_count + COMMON_COUNT;
    while (row < rows && !same_name(word + 2, option_name(tool, row)))
        row++;
    return row;
}

static bool is_option(const struct cli_tool *tool, const char *word)
{
    if (strncmp(word, "--", 2) == 0)
        return word[2] && find_long(tool, word) < tool->option_count + COMMON_COUNT;
    return word[0] == '-' && word[1] &&
           (strchr("hV", word[1]) || find_letter(tool, word[1]) != CLI_NONE);
}

/* Where it is another option that follows, the value was forgotten. */
static remat_status check_follows(remat_context *ctx, const struct cli_tool *tool, const char *word,
                                  const char *next)
{
    if (!next || !is_option(tool, next))
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "%s needs a value, and '%s' is an option (as a value: %s%s%s)", word, next,
                       word, word[1] == '-' ? "=" : "", next);
}

/* Long names must be whole: getopt would accept abbreviations, and a script that uses one breaks
 * when an option is added. */
static remat_status check_names(remat_context *ctx, const struct cli_tool *tool, int argc,
                                char *const *argv)
{
    remat_status st = REMAT_OK;
    for (int i = 1, words; i < argc && strcmp(argv[i], "--") != 0; i += words) {
        words = 1;
        if (strncmp(argv[i], "--", 2) == 0) {
            uint32_t row = find_long(tool, argv[i]);
            if (row == tool->option_count + COMMON_COUNT)
                return fail_unknown(ctx, tool, argv[i] + 2);
            if (row < tool->option_count && tool->options[row].kind != CLI_FLAG &&
                !strchr(argv[i], '='))
                words = 2;
        } else if (argv[i][0] == '-')
            words = word_count(tool, argv[i]);
        if (words == 2)
            REMAT_TRY(check_follows(ctx, tool, argv[i], argv[i + 1]));
    }
fail:
    return st;
}

static remat_status fail_refused(remat_context *ctx, const struct cli_tool *tool, bool missing)
{
    const char *what = missing ? "needs a value" : "takes no value";
    if (optopt >= CODE_OPTION)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s %s",
                           tool->options[optopt - CODE_OPTION].name, what);
    if (optopt >= CODE_HELP)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--%s %s", common[optopt - CODE_HELP].name,
                           what);
    return missing ? remat_error(ctx, REMAT_ERROR_USAGE, "-%c needs a value", optopt)
                   : remat_error(ctx, REMAT_ERROR_USAGE, "unknown option '-%c'", optopt);
}

static remat_status print_help(remat_context *ctx, const struct cli_tool *tool)
{
    cli_print_help(tool);
    if (!tool->more)
        return REMAT_OK;
    printf("\n%s:\n", tool->more);
    return tool->print_more(ctx);
}

static remat_status print_common(remat_context *ctx, const struct cli_tool *tool, int code)
{
    if (code == CODE_HELP || code == 'h')
        return print_help(ctx, tool);
    if (code == CODE_LIST)
        cli_print_options(tool);
    else if (code == CODE_MAN)
        cli_print_man(tool);
    else
        printf("%s %s\n", tool->name, REMAT_VERSION);
    return REMAT_OK;
}

static remat_status parse_options(remat_context *ctx, struct remat_arena *arena,
                                  const struct cli_tool *tool, int argc, char **argv,
                                  const struct option *long_options, const char *letters,
                                  struct cli_arguments *args, bool *done)
{
    remat_status st = REMAT_OK;
    optind = 0; /* GNU: starts anew */
    opterr = 0;
    REMAT_TRY(check_names(ctx, tool, argc, argv));
    for (;;) {
        int code = getopt_long(argc, argv, letters, long_options, NULL);
        if (code == -1)
            return REMAT_OK;
        if (code == '?' || code == ':')
            return fail_refused(ctx, tool, code == ':');
        if (code == 'h' || code == 'V' || (code >= CODE_HELP && code < CODE_OPTION)) {
            *done = true;
            return print_common(ctx, tool, code);
        }
        uint32_t index =
            code >= CODE_OPTION ? (uint32_t)(code - CODE_OPTION) : find_letter(tool, code);
        REMAT_TRY(take_option(ctx, args, index, optarg));
        while (takes_list(&tool->options[index]) && optind < argc && *argv[optind] != '-')
            REMAT_TRY(take_option(ctx, args, index, argv[optind++]));
        if (tool->options[index].kind == CLI_LIST)
            REMAT_TRY(take_words(arena, args, tool->options[index].accepted, argc, argv));
    }
fail:
    return st;
}

static remat_status check_operands(remat_context *ctx, const struct cli_tool *tool,
                                   const struct cli_arguments *args)
{
    if (args->operand_count < tool->operands_min)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s is missing", tool->operands);
    if (args->operand_count > tool->operands_max)
        return remat_error(ctx, REMAT_ERROR_USAGE, "unexpected argument '%s'",
                           args->operands[tool->operands_max]);
    return REMAT_OK;
}

remat_status cli_parse(remat_context *ctx, struct remat_arena *arena, const struct cli_tool *tool,
                       int argc, char **argv, struct cli_arguments *out, bool *done)
{
    remat_status st = REMAT_OK;
    struct option *long_options;
    char *letters;
    *done = false;
    *out = (struct cli_arguments){.tool = tool};
    REMAT_TRY_NEW(arena, out->given, (size_t)argc + 1);
    REMAT_TRY(make_getopt_tables(arena, tool, &long_options, &letters));
    REMAT_TRY(parse_options(ctx, arena, tool, argc, argv, long_options, letters, out, done));
    out->operands = (const char *const *)argv + optind;
    out->operand_count = argc > optind ? (uint32_t)(argc - optind) : 0;
    if (!*done)
        REMAT_TRY(check_operands(ctx, tool, out));
fail:
    return st;
}

/* --- reading --- */

static const char *find_value(const struct cli_arguments *args, uint32_t option)
{
    assert(option < args->tool->option_count);
    for (uint32_t i = 0; i < args->given_count; i++)
        if (args->given[i].option == option)
            return args->given[i].value;
    return NULL;
}

bool cli_has(const struct cli_arguments *args, uint32_t option)
{
    return find_value(args, option) != NULL;
}

const char *cli_text(const struct cli_arguments *args, uint32_t option, const char *otherwise)
{
    const char *text = find_value(args, option);
    return text ? text : otherwise;
}

int64_t cli_integer(const struct cli_arguments *args, uint32_t option, int64_t otherwise)
{
    const char *text = find_value(args, option);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

double cli_number(const struct cli_arguments *args, uint32_t option, double otherwise)
{
    const char *text = find_value(args, option);
    return text ? strtod(text, NULL) : otherwise;
}

uint32_t cli_choice(const struct cli_arguments *args, uint32_t option, uint32_t otherwise)
{
    const char *text = find_value(args, option);
    uint32_t choice = otherwise;
    if (text)
        find_choice(args->tool->options[option].accepted, text, &choice);
    return choice;
}

remat_status cli_size(remat_context *ctx, const struct cli_arguments *args, uint32_t option,
                      uint64_t capacity, uint64_t *bytes)
{
    const char *text = find_value(args, option);
    char setting[64];
    snprintf(setting, sizeof setting, "--%s", args->tool->options[option].name);
    if (!text)
        return REMAT_OK;
    return remat_size_parse(ctx, setting, text, capacity, may_be_zero(&args->tool->options[option]),
                            bytes);
}

const char *const *cli_texts(struct remat_arena *arena, const struct cli_arguments *args,
                             uint32_t option, uint32_t *count)
{
    const char **texts = remat_arena_array(arena, args->given_count, sizeof *texts);
    *count = 0;
    for (uint32_t i = 0; texts && i < args->given_count; i++)
        if (args->given[i].option == option)
            texts[(*count)++] = args->given[i].value;
    return texts;
}

const char *cli_join(struct remat_arena *arena, const char *path, size_t length, const char *name)
{
    bool apart = length == 0 || path[length - 1] == '/';
    return remat_arena_format(arena, "%.*s%s%s", (int)length, path, apart ? "" : "/", name);
}
