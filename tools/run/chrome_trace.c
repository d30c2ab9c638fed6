/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome_trace.h"

#include <jansson.h>

/* Takes `event`. Every event but the first line of the file starts with a comma. */
static void write_event(struct chrome_trace *trace, const char *before, json_t *event)
{
    fputs(before, trace->stream);
    if (!event || json_dumpf(event, trace->stream, JSON_COMPACT) != 0)
        trace->failed = true;
    json_decref(event);
}

remat_status chrome_trace_open(struct remat_outputs *outputs, const char *path,
                               struct chrome_trace *out)
{
    remat_status st = REMAT_OK;
    *out = (struct chrome_trace){.path = path};
    RUN_TRY(remat_outputs_stream(outputs, path, &out->stream));
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out->stream);
    write_event(out, "",
                json_pack("{s:s,s:s,s:i,s:{s:s}}", "ph", "M", "name", "process_name", "pid", 1,
                          "args", "name", "remat-run"));
fail:
    return st;
}

void chrome_trace_add(struct chrome_trace *trace, uint64_t begin_ns, const remat_trace_event *event)
{
    double start_us = (double)(begin_ns + event->start_ns) / 1000;
    const char *category = event->instance ? "recompute" : event->phase;
    write_event(trace, ",\n",
                json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:{s:I,s:s,s:s,s:I,s:I,s:I,s:I}}", "ph",
                          "X", "name", event->name, "cat", category, "pid", 1, "tid", 1, "ts",
                          start_us, "dur", (double)event->duration_ns / 1000, "args", "command",
                          (json_int_t)event->command, "scope", event->scope, "kernel",
                          event->kernel, "recomputation", (json_int_t)event->instance,
                          "predicted_ns", (json_int_t)event->predicted_ns, "flops",
                          (json_int_t)event->flops, "moved_bytes", (json_int_t)event->moved_bytes));
    write_event(trace, ",\n",
                json_pack("{s:s,s:s,s:i,s:f,s:{s:I}}", "ph", "C", "name", "live bytes", "pid", 1,
                          "ts", start_us, "args", "live", (json_int_t)event->live_bytes));
}

remat_status chrome_trace_close(remat_context *ctx, struct chrome_trace *trace)
{
    fputs("\n]}\n", trace->stream);
    if (trace->failed && !ferror(trace->stream))
        return cli_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", trace->path);
    return REMAT_OK; /* the commit looks at the stream */
}
