/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as Chrome trace JSON, for chrome://tracing and ui.perfetto.dev: one slice a command, one
 * counter of live bytes. */
#ifndef REMAT_TOOLS_RUN_CHROME_TRACE_H
#define REMAT_TOOLS_RUN_CHROME_TRACE_H

#include "files.h"
#include "run.h"

struct chrome_trace { /* zero-initialise */
    const char *path; /* borrowed */
    FILE *stream;     /* the output's; NULL: closed */
    bool failed;      /* out of memory at some point */
};

remat_status chrome_trace_open(struct remat_outputs *outputs, const char *path,
                               struct chrome_trace *out);
/* `begin_ns`: when the entry point began, on the time axis of the file. */
void chrome_trace_add(struct chrome_trace *trace, uint64_t begin_ns,
                      const remat_trace_event *event);
remat_status chrome_trace_close(remat_context *ctx, struct chrome_trace *trace);

#endif
