/* SPDX-License-Identifier: Apache-2.0 */
/* Searches, as they go on: progress on standard error, --time-limit, Ctrl-C. */
#ifndef REMAT_TOOLS_COMPILE_PROGRESS_H
#define REMAT_TOOLS_COMPILE_PROGRESS_H

#include "cli.h"
#include "compile.h"
#include "divisions.h"
#include "sizes.h"
#include "watch.h"

struct progress {
    struct cli_watch watch;
    const struct sizes *sizes;         /* that are looked at; NULL: there is one */
    uint32_t value;                    /* now */
    bool chosen;                       /* it is the one that the search for sizes chose */
    const struct divisions *divisions; /* that are looked at; NULL: there is one */
    const struct division *division;   /* now */
    struct remat_search_state state;
    double late;       /* seconds: a run without a plan to write ends */
    bool lowers_after; /* the search to begin is followed by the plan alone */
};

/* If there is a choice to search for, it can be ended from now on; `progress` outlives it.
 * REMAT_ERROR_USAGE: a limit that is no time, or without a search. */
remat_status progress_start(remat_context *ctx, const struct cli_arguments *args,
                            struct remat_compile_settings *settings, struct progress *progress);

/* Notes that the search from now on is for a plan of this value, one of many, or the chosen one. */
void progress_look_at(struct progress *progress, const struct sizes *sizes, uint32_t value,
                      bool chosen);

/* The same of a division; NULL: the one that was chosen. */
void progress_look_at_division(struct progress *progress, const struct divisions *divisions,
                               const struct division *division);

#endif
