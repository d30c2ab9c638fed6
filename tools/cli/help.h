/* SPDX-License-Identifier: Apache-2.0 */
/* What --help, --list-options and --man print. */
#ifndef REMAT_TOOLS_HELP_H
#define REMAT_TOOLS_HELP_H

#include "cli.h"

void cli_print_help(const struct cli_tool *tool);
void cli_print_options(
    const struct cli_tool *tool); /* a line each: name, kind, value, accepted, help */
void cli_print_man(const struct cli_tool *tool);

#endif
