/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on a terminal: no line is longer than 80 columns unless it is one word, nothing but
 * spaces between words changes, and continued lines are indented. */
#include "check.h"
#include "wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To be freed. */
static char *wrap(const char *text)
{
    char *out = NULL;
    size_t bytes;
    FILE *file = open_memstream(&out, &bytes);
    MUST(file);
    cli_write_wrapped(file, text);
    MUST(fclose(file) == 0);
    return out;
}

static void check_text(const char *text, const char *expected)
{
    char *out = wrap(text);
    CHECK(strcmp(out, expected) == 0, "%s\nwrapped:\n%s", text, out);
    free(out);
}

#define SEVENTY "123456789 123456789 123456789 123456789 123456789 123456789 123456789"

static void check_examples(void)
{
    check_text("", "");
    check_text("short\n", "short\n");
    check_text(SEVENTY " 1234567890", SEVENTY " 1234567890");
    check_text(SEVENTY " 12345678901\n", SEVENTY "\n    12345678901\n");
    check_text("  " SEVENTY " 123456789\nb", "  " SEVENTY "\n      123456789\nb");
    check_text("a_word_of_more_than_eighty_columns_stays_as_it_is_"
               "and_what_comes_behind_it_is_on_a_line_of_its_own 1 2",
               "a_word_of_more_than_eighty_columns_stays_as_it_is_"
               "and_what_comes_behind_it_is_on_a_line_of_its_own\n    1 2");
}

static uint32_t seed = 1;

static uint32_t pick(uint32_t count)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % count;
}

/* The words of both are the same, in lines that are short enough. */
static void check_random(void)
{
    char text[2048] = "";
    static const char *const words[] = {"a", "error:", "h.0/attn", "\xe2\x80\xa6\xc3\xa9",
                                        "budget"};
    uint32_t lines = 1 + pick(3);
    for (uint32_t l = 0; l < lines; l++) {
        strcat(text, pick(2) ? "  " : "");
        for (uint32_t w = 1 + pick(60); w > 0; w--) {
            strcat(text, words[pick(5)]);
            strcat(text, w > 1 ? " " : "\n");
        }
    }
    char *out = wrap(text), *rest_in = NULL, *rest_out = NULL;
    for (char *line = out, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t columns = 0;
        for (char *c = line; c < end; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        CHECK(columns <= CLI_COLUMNS, "%zu columns:\n%s", columns, out);
    }
    char *a = strtok_r(text, " \n", &rest_in), *b = strtok_r(out, " \n", &rest_out);
    while (a && b && strcmp(a, b) == 0) {
        a = strtok_r(NULL, " \n", &rest_in);
        b = strtok_r(NULL, " \n", &rest_out);
    }
    CHECK(!a && !b, "a word is %s, not %s", b ? b : "missing", a ? a : "missing");
    free(out);
}

int main(void)
{
    check_examples();
    for (int i = 0; i < 1000; i++)
        check_random();
    return check_exit();
}
