/* SPDX-License-Identifier: Apache-2.0 */
#include "wrap.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTINUED = 4 };

/* A character of UTF-8 takes a column; these are its other bytes. */
static size_t column_of(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* The last space that `room` columns end before, else the first one; `length`: none. Spaces that a
 * line begins with are none. */
static size_t find_space(const char *line, size_t length, size_t room)
{
    size_t at = length, used = strspn(line, " ");
    for (size_t i = used; i < length && (used <= room || at == length); i++) {
        if (line[i] == ' ')
            at = i;
        used += column_of(line[i]);
    }
    return at;
}

static size_t find_end(const char *line, size_t length, size_t room)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += column_of(line[i]);
    return columns > room ? find_space(line, length, room) : length;
}

static void write_line(FILE *file, const char *line, size_t length)
{
    size_t begin = strspn(line, " "), room = CLI_COLUMNS;
    size_t indent = (begin < CLI_COLUMNS / 2 ? begin : 0) + CONTINUED;
    for (;;) {
        size_t end = find_end(line, length, room);
        fprintf(file, "%.*s", (int)end, line);
        while (end < length && line[end] == ' ')
            end++;
        if (end == length)
            return;
        fprintf(file, "\n%*s", (int)indent, "");
        room = CLI_COLUMNS - indent;
        line += end;
        length -= end;
    }
}

void cli_write_wrapped(FILE *file, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        write_line(file, text, length);
        text += length;
        if (*text == '\n')
            fputc(*text++, file);
    }
}

void cli_print(FILE *file, const char *format, ...)
{
    char *text = NULL;
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    if (isatty(fileno(file)) && vasprintf(&text, format, again) >= 0)
        cli_write_wrapped(file, text);
    else
        vfprintf(file, format, values);
    va_end(again);
    va_end(values);
    free(text);
}
