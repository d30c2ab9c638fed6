/* SPDX-License-Identifier: Apache-2.0 */
/* --print-after, --print-plan and --verbose. */
#ifndef REMAT_TOOLS_COMPILE_OBSERVE_H
#define REMAT_TOOLS_COMPILE_OBSERVE_H

#include "cli.h"
#include "compile.h"

struct observer {
    remat_context *ctx;
    const struct cli_arguments *args;
    bool search_begun; /* something of a search has been printed */
};

/* Has graphs and times printed as the options say. The observer outlives the compilation.
 * REMAT_ERROR_USAGE: there is no such pass. */
remat_status observe(remat_context *ctx, struct remat_arena *arena,
                     const struct cli_arguments *args, struct remat_compile_settings *settings,
                     struct observer *observer);

#endif
