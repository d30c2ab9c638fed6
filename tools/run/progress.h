/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on standard error, one rewritten line, if that is a terminal. */
#ifndef REMAT_TOOLS_RUN_PROGRESS_H
#define REMAT_TOOLS_RUN_PROGRESS_H

#include "run.h"

uint64_t clock_ns(void); /* monotonic */

struct step_progress {
    bool terminal, shown;
    uint64_t start_ns, begin, end;
};

/* Steps [begin + 1, end]. */
void progress_start(struct step_progress *progress, uint64_t begin, uint64_t end);
/* After step `done`. */
void progress_update(struct step_progress *progress, uint64_t done, float loss,
                     double tokens_per_s);
/* Takes the rewritten line away, before anything else is printed. */
void progress_clear(struct step_progress *progress);

#endif
