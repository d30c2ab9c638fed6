/* SPDX-License-Identifier: Apache-2.0 */
/* Help, option list and man page: the option table in three shapes. */
#include "cli.h"

#include "base.h"
#include "wrap.h"

static const char *const exit_lines[] = {
    "0 done, 1 other, 2 usage, 3 does not fit the budget, 4 invalid file, 5 I/O,",
    "6 out of memory, 7 search ended before it found a plan, 8 a result that is not finite,",
    "9 a plan that does not run, 70 internal error,",
    "75 a rank was lost or training interrupted, try again.",
};
#define EXIT_LINES (sizeof exit_lines / sizeof *exit_lines)

static const char *const kind_names[] = {"flag", "text",  "choice", "list",   "integer", "number",
                                         "size", "input", "name",   "output", "folder"};

static const struct cli_option common[] = {
    {"help", 'h', CLI_FLAG, NULL, "", "Common", "show this help"},
    {"version", 'V', CLI_FLAG, NULL, "", "Common", "show the version"},
    {"list-options", 0, CLI_FLAG, NULL, "", "Common", "list the options, one a line, for programs"},
    {"man", 0, CLI_FLAG, NULL, "", "Common", "print the man page (groff source)"},
};
enum { COMMON_COUNT = sizeof common / sizeof *common };

/* The option of a row; the common ones come last. NULL after them. */
static const struct cli_option *find_row(const struct cli_tool *tool, uint32_t row)
{
    if (row < tool->option_count)
        return &tool->options[row];
    row -= tool->option_count;
    return row < COMMON_COUNT ? &common[row] : NULL;
}

static bool begins_group(const struct cli_tool *tool, uint32_t row)
{
    return row == 0 || strcmp(find_row(tool, row)->group, find_row(tool, row - 1)->group) != 0;
}

/* The words of a LIST with spaces between them, where a line may end. */
static void show_accepted(const struct cli_option *option, size_t size, char *out)
{
    size_t used = 0;
    for (const char *c = option->accepted; *c && used + 3 < size; c++) {
        bool between = option->kind == CLI_LIST && *c == '|';
        used += (size_t)snprintf(out + used, size - used, between ? ", " : "%c", *c);
    }
    out[used] = 0;
}

static void print_option_help(const struct cli_option *option)
{
    char left[64], accepted[256];
    char letter[8] = "   ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c,", option->letter);
    snprintf(left, sizeof left, "%s --%s%s%s", letter, option->name, option->value ? " " : "",
             option->value ? option->value : "");
    bool accepts = *option->accepted;
    show_accepted(option, sizeof accepted, accepted);
    cli_print(stdout, "  %-37s  %s%s%s%s\n", left, option->help, accepts ? " (" : "", accepted,
              accepts ? ")" : "");
}

void cli_print_help(const struct cli_tool *tool)
{
    printf("Usage: %s %s [OPTION...]\n", tool->name, tool->operands);
    cli_print(stdout, "%s\n%s: %s\n\nExamples:\n", tool->summary, tool->operands,
              tool->operand_help);
    for (size_t i = 0; i < 3 && tool->examples[i].command; i++) {
        printf("  %s\n", tool->examples[i].command); /* whole, to copy */
        cli_print(stdout, "      %s\n", tool->examples[i].purpose);
    }
    const struct cli_option *option;
    for (uint32_t i = 0; (option = find_row(tool, i)); i++) {
        if (begins_group(tool, i))
            printf("\n%s:\n", option->group);
        print_option_help(option);
    }
    for (size_t i = 0; i < EXIT_LINES; i++)
        cli_print(stdout, "%s%s\n", i ? "" : "\nExit codes: ", exit_lines[i]);
}

void cli_print_options(const struct cli_tool *tool)
{
    const struct cli_option *o;
    for (uint32_t i = 0; (o = find_row(tool, i)); i++)
        printf("--%s\t%s\t%s\t%s\t%s\n", o->name, kind_names[o->kind], o->value ? o->value : "",
               o->accepted, o->help);
}

/* Text as groff takes it: '-' and '\' escaped, no line starting with a control character. */
static void print_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        printf("\\&");
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
}

static void print_roff_option(const struct cli_option *option)
{
    printf(".TP\n.B ");
    if (option->letter)
        printf("\\-%c, ", option->letter);
    printf("\\-\\-");
    print_roff(option->name);
    if (option->value)
        printf(" \\fI%s\\fR", option->value);
    putchar('\n');
    print_roff(option->help);
    if (*option->accepted) {
        printf(" (");
        print_roff(option->accepted);
        putchar(')');
    }
    printf(".\n");
}

void cli_print_man(const struct cli_tool *tool)
{
    printf(".TH ");
    print_roff(tool->name);
    printf(" 1 \"\" \"remat %s\"\n.SH NAME\n", REMAT_VERSION);
    print_roff(tool->name);
    printf(" \\- ");
    print_roff(tool->summary);
    printf("\n.SH SYNOPSIS\n.B ");
    print_roff(tool->name);
    printf(" %s [OPTION...]\n.TP\n.B %s\n", tool->operands, tool->operands);
    print_roff(tool->operand_help);
    printf(".\n");
    const struct cli_option *option;
    for (uint32_t i = 0; (option = find_row(tool, i)); i++) {
        if (begins_group(tool, i))
            printf(".SH \"%s\"\n", option->group);
        print_roff_option(option);
    }
    printf(".SH EXAMPLES\n");
    for (size_t i = 0; i < 3 && tool->examples[i].command; i++) {
        printf(".TP\n.B ");
        print_roff(tool->examples[i].command);
        putchar('\n');
        print_roff(tool->examples[i].purpose);
        putchar('\n');
    }
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < EXIT_LINES; i++)
        printf("%s%s", exit_lines[i], i + 1 < EXIT_LINES ? " " : "\n");
}
