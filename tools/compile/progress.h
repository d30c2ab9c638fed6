/* SPDX-License-Identifier: Apache-2.0 */
/* Searches, as they go on: progress on standard error, Ctrl-C. */
#ifndef REMAT_TOOLS_COMPILE_PROGRESS_H
#define REMAT_TOOLS_COMPILE_PROGRESS_H

#include "watch.h"

#include <remat/compile.h>

struct progress {
    struct cli_watch watch;
    remat_compile_progress now; /* during a question */
};

/* From now on an interrupt ends the search, if `options` are watched; `progress` outlives it. */
remat_status progress_start(remat_context *ctx, remat_compile_options *options,
                            struct progress *progress);

#endif
