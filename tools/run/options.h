/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the options. */
#ifndef REMAT_TOOLS_RUN_OPTIONS_H
#define REMAT_TOOLS_RUN_OPTIONS_H

#include "cli.h"

enum {
#define OPTION CLI_OPTION_INDEX
#include "run.def"
#undef OPTION
    OPTION_COUNT
};

#endif
