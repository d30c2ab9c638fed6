/* SPDX-License-Identifier: Apache-2.0 */
/* Searches, as they go on: progress on standard error, --time-limit, Ctrl-C. */
#ifndef REMAT_TOOLS_COMPILE_PROGRESS_H
#define REMAT_TOOLS_COMPILE_PROGRESS_H

#include "cli.h"
#include "compile.h"
#include "watch.h"

struct progress {
    struct cli_watch watch;
    const char *symbol; /* that a size is chosen for; NULL: none */
    uint32_t value;     /* of it */
    struct remat_search_state state;
    bool lowers_after; /* the search to begin is followed by the plan alone */
};

/* If there is a choice to search for, it can be ended from now on; `progress` outlives it.
 * REMAT_ERROR_USAGE: a limit that is no time, or without a search. */
remat_status progress_start(remat_context *ctx, const struct cli_arguments *args,
                            struct remat_compile_settings *settings, struct progress *progress);

#endif
