/* SPDX-License-Identifier: Apache-2.0 */
/* Measured times of kernels as a profile (remat-profile/1, docs/cost_model.md), which remat-compile
 * --profile reads. */
#ifndef REMAT_TOOLS_RUN_PROFILER_H
#define REMAT_TOOLS_RUN_PROFILER_H

#include "run.h"

#define PROFILER_SAMPLES 32 /* kept of each command, the newest */

struct profiler_command {
    const char *kernel; /* NULL: did not run */
    uint64_t flops, moved_bytes;
    struct profiler_runs {
        uint64_t count;
        uint64_t ns[PROFILER_SAMPLES];
    } runs;
};

struct profiler { /* zero-initialise */
    const remat_plan *plan;
    uint32_t command_count;
    struct profiler_command *commands;
};

remat_status profiler_open(remat_context *ctx, const remat_plan *plan, struct profiler *out);
void profiler_add(struct profiler *profile, const remat_trace_event *event);
/* The same runs of a command on another rank: of a transfer the time of the rank that came last and
 * waited for nobody, of other commands that of the slowest rank. */
void profiler_merge(struct profiler *profile, uint32_t command, const struct profiler_runs *other);
/* One row for each kernel and size, count and median, as those of the session's device. */
remat_status profiler_write(remat_context *ctx, struct remat_outputs *outputs,
                            const struct profiler *profile, const char *path,
                            const remat_session *session);
void profiler_release(struct profiler *profile);

#endif
