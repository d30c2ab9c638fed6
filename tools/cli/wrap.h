/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in lines that people read. */
#ifndef REMAT_TOOLS_WRAP_H
#define REMAT_TOOLS_WRAP_H

#include <stdio.h>

enum { CLI_COLUMNS = 80 };

/* Writes `text`, UTF-8; lines longer than CLI_COLUMNS are broken at spaces, and continued four
 * columns further right than they begin. A word that is longer stays whole. */
void cli_write_wrapped(FILE *file, const char *text);

/* Wrapped if the file is a terminal: programs find a message in one line. */
__attribute__((format(printf, 2, 3))) void cli_print(FILE *file, const char *format, ...);

#endif
