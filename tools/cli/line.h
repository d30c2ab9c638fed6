/* SPDX-License-Identifier: Apache-2.0 */
/* A line of progress at the bottom of a terminal, on standard error, which is rewritten in place.
 * Messages (tool.h) come above it. For one thread. */
#ifndef REMAT_TOOLS_LINE_H
#define REMAT_TOOLS_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether standard error is a terminal that can rewrite a line (TERM is not "dumb"), and nothing
 * else may print there unknown to this process, as what reads standard output from a pipe does. */
bool cli_line_possible(void);
/* The most bytes of ASCII that one line has room for: the terminal may have a new size each time.
 */
size_t cli_line_room(void);

/* Shows the line, which is at most that long, in place of the one that was there. */
void cli_line_show(const char *text);
/* Takes it away before something else is printed, which ends a line; cli_line_back shows it again.
 * All harmless if there is none. */
void cli_line_hide(void);
void cli_line_back(void);
void cli_line_end(void);
/* Leaves it there and begins another one. For a signal handler. */
void cli_line_leave(void);

#endif
