/* Commands as Chrome trace JSON, for chrome://tracing and ui.perfetto.dev: one slice a command, one
 * counter of live bytes. */
#ifndef REMAT_TOOLS_RUN_CHROME_TRACE_H
#define REMAT_TOOLS_RUN_CHROME_TRACE_H

#include "output_file.h"

struct chrome_trace { /* zero-initialise */
    struct output_file file;
    bool failed; /* out of memory at some point */
};

remat_status chrome_trace_open(remat_context *ctx, const char *path, struct chrome_trace *out);
/* `begin_ns`: when the entry point began, on the time axis of the file. */
void chrome_trace_add(struct chrome_trace *trace, uint64_t begin_ns,
                      const remat_trace_event *event);
remat_status chrome_trace_close(remat_context *ctx, struct chrome_trace *trace);
void chrome_trace_abandon(struct chrome_trace *trace); /* harmless when closed */

#endif
