/* SPDX-License-Identifier: Apache-2.0 */
/* In a tool's main, the indices and the table of its options, from the rows of its .def:
 *
 *     #define CLI_OPTIONS "dump.def"
 *     #include "option_table.h"
 */
#ifndef REMAT_TOOLS_OPTION_TABLE_H
#define REMAT_TOOLS_OPTION_TABLE_H

#include "cli.h"

enum { /* OPTION_budget ... */
#define OPTION CLI_OPTION_INDEX
#include CLI_OPTIONS
#undef OPTION
       OPTION_COUNT
};
static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include CLI_OPTIONS
#undef OPTION
};

#endif
