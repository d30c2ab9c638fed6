/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as Chrome trace JSON, for chrome://tracing and ui.perfetto.dev: one slice a command, one
 * counter of live bytes. Each rank is a process there. */
#ifndef REMAT_TOOLS_RUN_CHROME_TRACE_H
#define REMAT_TOOLS_RUN_CHROME_TRACE_H

#include "files.h"
#include "run.h"

struct chrome_trace { /* zero-initialise */
    const char *path; /* borrowed */
    FILE *stream;     /* the output's, or a temporary file's; NULL: closed */
    uint32_t rank;
    bool two_links; /* a second stream of transfers has a name */
    bool failed;    /* out of memory at some point */
    bool reading;   /* a part */
};

/* The file; its own events are those of rank 0, of `ranks`. */
remat_status chrome_trace_open(struct remat_outputs *outputs, const char *path, uint32_t ranks,
                               struct chrome_trace *out);
/* The events of another rank, in a temporary file: text to append. */
remat_status chrome_trace_open_part(remat_context *ctx, uint32_t rank, struct chrome_trace *out);
/* The next bytes of a part, none at its end. */
size_t chrome_trace_read_part(struct chrome_trace *part, void *text, size_t bytes);
/* Whether all of it was written and read. */
remat_status chrome_trace_check_part(remat_context *ctx, const struct chrome_trace *part);
void chrome_trace_release_part(struct chrome_trace *part); /* harmless when released */
void chrome_trace_append(struct chrome_trace *trace, const void *text, size_t bytes);
/* `begin_ns`: when the entry point began, on the time axis of the file. */
void chrome_trace_add(struct chrome_trace *trace, uint64_t begin_ns,
                      const remat_trace_event *event);
remat_status chrome_trace_close(remat_context *ctx, struct chrome_trace *trace);

#endif
