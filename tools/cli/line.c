/* SPDX-License-Identifier: Apache-2.0 */
#include "line.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 256, USUAL_COLUMNS = 80 };
static char line[LINE_BYTES]; /* "": none */
static volatile sig_atomic_t shown;

bool cli_line_possible(void)
{
    const char *terminal = getenv("TERM");
    struct stat output;
    return isatty(STDERR_FILENO) == 1 && (!terminal || strcmp(terminal, "dumb") != 0) &&
           (fstat(STDOUT_FILENO, &output) != 0 || !S_ISFIFO(output.st_mode));
}

/* The last column stays free, so that no terminal goes on to the next line. */
size_t cli_line_room(void)
{
    struct winsize size = {0};
    size_t columns =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : USUAL_COLUMNS;
    return columns < LINE_BYTES ? columns - 1 : LINE_BYTES - 1;
}

void cli_line_show(const char *text)
{
    cli_line_hide();
    snprintf(line, sizeof line, "%s", text);
    cli_line_back();
}

void cli_line_hide(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = 0;
}

void cli_line_back(void)
{
    if (!*line || shown)
        return;
    shown = 1; /* a signal may come before it is there, or after */
    fputs(line, stderr);
    fflush(stderr);
    if (!shown)
        fputs("\n", stderr);
}

void cli_line_end(void)
{
    cli_line_hide();
    *line = 0;
}

void cli_line_leave(void)
{
    if (shown && write(STDERR_FILENO, "\n", 1) >= 0)
        shown = 0;
}
