/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ranks other than 0 for the trace and the profile, which rank 0 writes. */
#ifndef REMAT_TOOLS_RUN_RECORDS_H
#define REMAT_TOOLS_RUN_RECORDS_H

#include "chrome_trace.h"
#include "profiler.h"

struct ranks;

struct records { /* of a rank; zero-initialise */
    struct chrome_trace trace;
    struct profiler profiler;
};

remat_status records_open(remat_context *ctx, const remat_plan *plan, uint32_t rank, bool traced,
                          bool profiled, struct records *out);
void records_release(struct records *records); /* harmless when released */

/* On every process when its steps are over: adds the other ranks' records to rank 0's `trace` and
 * `profiler`, which on other processes are those of its records; NULL on all: not asked for. */
remat_status records_collect(remat_context *ctx, struct ranks *ranks, struct chrome_trace *trace,
                             struct profiler *profiler);

#endif
