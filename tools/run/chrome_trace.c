/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome_trace.h"

#include <inttypes.h>
#include <jansson.h>

/* Takes `event`. Every event but the first line of the file starts with a comma. */
static void write_event(struct chrome_trace *trace, const char *before, json_t *event)
{
    fputs(before, trace->stream);
    if (!event || json_dumpf(event, trace->stream, JSON_COMPACT) != 0)
        trace->failed = true;
    json_decref(event);
}

#define THREAD(stream) ((int)(stream) + 1)

/* Its process. */
static int process_of(const struct chrome_trace *trace)
{
    return (int)trace->rank + 1;
}

static void write_name(struct chrome_trace *trace, const char *before, const char *name)
{
    write_event(trace, before,
                json_pack("{s:s,s:s,s:i,s:{s:s}}", "ph", "M", "name", "process_name", "pid",
                          process_of(trace), "args", "name", name));
}

static void write_stream(struct chrome_trace *trace, uint32_t stream, const char *name)
{
    write_event(trace, ",\n",
                json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "ph", "M", "name", "thread_name", "pid",
                          process_of(trace), "tid", THREAD(stream), "args", "name", name));
}

static void write_streams(struct chrome_trace *trace)
{
    write_stream(trace, REMAT_STREAM_COMPUTATION, "computation");
    write_stream(trace, REMAT_STREAM_TRANSFERS, "transfers");
}

remat_status chrome_trace_open(struct remat_outputs *outputs, const char *path, uint32_t ranks,
                               struct chrome_trace *out)
{
    remat_status st = REMAT_OK;
    *out = (struct chrome_trace){.path = path};
    RUN_TRY(remat_outputs_stream(outputs, path, &out->stream));
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out->stream);
    write_name(out, "", ranks > 1 ? "rank 0" : "remat-run");
    if (ranks > 1)
        write_streams(out);
fail:
    return st;
}

remat_status chrome_trace_open_part(remat_context *ctx, uint32_t rank, struct chrome_trace *out)
{
    char name[24];
    *out = (struct chrome_trace){.path = "--trace", .stream = tmpfile(), .rank = rank};
    if (!out->stream)
        return cli_error(ctx, REMAT_ERROR_IO, "--trace: rank %" PRIu32 " has no temporary file",
                         rank);
    snprintf(name, sizeof name, "rank %" PRIu32, rank);
    write_name(out, ",\n", name);
    write_streams(out);
    return REMAT_OK;
}

size_t chrome_trace_read_part(struct chrome_trace *part, void *text, size_t bytes)
{
    if (!part->reading && fflush(part->stream) == 0)
        part->reading = fseek(part->stream, 0, SEEK_SET) == 0;
    return part->reading ? fread(text, 1, bytes, part->stream) : 0;
}

remat_status chrome_trace_check_part(remat_context *ctx, const struct chrome_trace *part)
{
    if (part->failed)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "--trace: out of memory");
    if (!part->reading || ferror(part->stream))
        return cli_error(ctx, REMAT_ERROR_IO,
                         "--trace: rank %" PRIu32 " cannot write or read its temporary file",
                         part->rank);
    return REMAT_OK;
}

void chrome_trace_release_part(struct chrome_trace *part)
{
    if (part->stream)
        fclose(part->stream);
    part->stream = NULL;
}

void chrome_trace_append(struct chrome_trace *trace, const void *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, trace->stream); /* the commit looks at the stream */
}

void chrome_trace_add(struct chrome_trace *trace, uint64_t begin_ns, const remat_trace_event *event)
{
    double start_us = (double)(begin_ns + event->start_ns) / 1000;
    const char *category = event->instance ? "recompute" : event->phase;
    if (event->stream > REMAT_STREAM_TRANSFERS && !trace->two_links) {
        write_stream(trace, event->stream, "transfers 2");
        trace->two_links = true;
    }
    write_event(trace, ",\n",
                json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:{s:I,s:s,s:s,s:I,s:I,s:I,s:I}}", "ph",
                          "X", "name", event->name, "cat", category, "pid", process_of(trace),
                          "tid", THREAD(event->stream), "ts", start_us, "dur",
                          (double)event->duration_ns / 1000, "args", "command",
                          (json_int_t)event->command, "scope", event->scope, "kernel",
                          event->kernel, "recomputation", (json_int_t)event->instance,
                          "predicted_ns", (json_int_t)event->predicted_ns, "flops",
                          (json_int_t)event->flops, "moved_bytes", (json_int_t)event->moved_bytes));
    write_event(trace, ",\n",
                json_pack("{s:s,s:s,s:i,s:f,s:{s:I}}", "ph", "C", "name", "live bytes", "pid",
                          process_of(trace), "ts", start_us, "args", "live",
                          (json_int_t)event->live_bytes));
}

remat_status chrome_trace_close(remat_context *ctx, struct chrome_trace *trace)
{
    fputs("\n]}\n", trace->stream);
    if (trace->failed && !ferror(trace->stream))
        return cli_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", trace->path);
    return REMAT_OK; /* the commit looks at the stream */
}
