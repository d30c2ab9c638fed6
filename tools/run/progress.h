/* SPDX-License-Identifier: Apache-2.0 */
/* A line of progress, where one can be shown (line.h). */
#ifndef REMAT_TOOLS_RUN_PROGRESS_H
#define REMAT_TOOLS_RUN_PROGRESS_H

#include "run.h"

uint64_t clock_ns(void); /* monotonic */

struct step_progress {
    bool shows;
    uint64_t begin, end; /* steps [begin + 1, end] */
    uint64_t model_ns;   /* of a step at the target's peak; 0: not known */
    uint64_t stop_ns;    /* when the run ends, whatever is left; UINT64_MAX: with the steps */
    uint64_t start_ns, first_ns; /* when the first step began, and ended */
};

/* `begin`, `end`, `model_ns` and `stop_ns` are set. */
void progress_start(struct step_progress *progress);
/* After step `done`, which took `ns`. */
void progress_update(struct step_progress *progress, uint64_t done, float loss, double tokens_per_s,
                     uint64_t ns);

#endif
