/* SPDX-License-Identifier: Apache-2.0 */
/* Each run of a command is a slice, with a sample of live bytes where computation comes to it. A
 * pair of flow events makes an arrow between two slices: it starts and ends in the slice that its
 * thread is in at that time. */
#include "formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* As of tools/run/chrome_trace.c; transfers of link l are of thread TRANSFERS + l. */
enum { PROCESS = 1, COMPUTATION = 1, TRANSFERS = 2 };

struct trace {
    const struct remat_program *program;
    const uint32_t *originals;
    struct remat_text *out;
    uint32_t arrows;
    bool failed;
};

/* Takes `event`. Every event but the first line of the file starts with a comma. */
static void append_event(struct trace *trace, const char *before, json_t *event)
{
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    remat_text_append(trace->out, "%s%s", before, text ? text : "");
    trace->failed |= !text;
    free(text);
    json_decref(event);
}

static void append_name(struct trace *trace, const char *before, const char *what, int thread,
                        const char *name)
{
    append_event(trace, before,
                 json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "ph", "M", "name", what, "pid", PROCESS,
                           "tid", thread, "args", "name", name));
}

/* Beside the name of the process. */
static void append_labels(struct trace *trace)
{
    char depth[24];
    snprintf(depth, sizeof depth, "depth %" PRIu32, trace->program->depth);
    append_event(trace, ",\n",
                 json_pack("{s:s,s:s,s:i,s:{s:s}}", "ph", "M", "name", "process_labels", "pid",
                           PROCESS, "args", "labels", depth));
}

static double microseconds(uint64_t ns)
{
    return (double)ns / 1000;
}

static int thread_of(const struct trace *trace, uint32_t command)
{
    const struct remat_program *p = trace->program;
    return p->commands[command].complete_before ? TRANSFERS + (int)remat_command_link(p, command)
                                                : COMPUTATION;
}

/* Takes `value`. */
static void add_to_slice(struct trace *trace, json_t *slice, const char *key, json_t *value)
{
    trace->failed |= json_object_set_new(json_object_get(slice, "args"), key, value) != 0;
}

/* Of a transfer: the first of its group, what it waits for on another link, when it has to be
 * complete, and how long computation waits for it. */
static void add_order(struct trace *trace, json_t *slice, uint32_t index, uint64_t exposed_ns)
{
    const struct remat_command *command = &trace->program->commands[index];
    add_to_slice(trace, slice, "group", json_integer(remat_group_begin(trace->program, index)));
    if (command->waits_for)
        add_to_slice(trace, slice, "waits_for", json_integer(command->waits_for - 1));
    add_to_slice(trace, slice, "complete_before", json_integer(command->complete_before));
    add_to_slice(trace, slice, "exposed_ns", dump_bytes(exposed_ns));
}

static void append_slice(struct trace *trace, const struct dump_run *run, uint32_t index)
{
    const struct remat_command *command = &trace->program->commands[index];
    const struct remat_clocks *clocks = run->clocks;
    const char *phase = remat_phase_name(command->phase);
    json_t *slice = json_pack(
        "{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:{s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:s,s:I}}", "ph", "X",
        "name", command->name, "cat", command->instance ? "recompute" : phase, "pid", PROCESS,
        "tid", thread_of(trace, index), "ts", microseconds(run->begin_ns + clocks->begin_ns[index]),
        "dur", microseconds(clocks->end_ns[index] - clocks->begin_ns[index]), "args", "command",
        (json_int_t)index, "scope", command->scope, "kernel",
        trace->program->kernels[command->kernel].key, "recomputation",
        (json_int_t)command->instance, "predicted_ns", (json_int_t)command->estimated_ns, "flops",
        (json_int_t)command->flops, "moved_bytes", (json_int_t)command->moved_bytes, "layer",
        (json_int_t)command->layer, "phase", phase, "segment", run->segment->name, "run",
        (json_int_t)run->of_call);
    if (command->complete_before)
        add_order(trace, slice, index, clocks->exposed_ns[index]);
    append_event(trace, ",\n", slice);
    append_event(trace, ",\n",
                 json_pack("{s:s,s:s,s:i,s:f,s:{s:I}}", "ph", "C", "name", "live bytes", "pid",
                           PROCESS, "ts", microseconds(run->begin_ns + clocks->reached_ns[index]),
                           "args", "live", (json_int_t)command->live_bytes));
}

static void append_end(struct trace *trace, const struct dump_run *run, uint32_t command,
                       const char *kind)
{
    append_event(trace, ",\n",
                 json_pack("{s:s,s:s,s:s,s:I,s:s,s:i,s:i,s:f}", "ph", kind, "name", "recompute",
                           "cat", "recompute", "id", (json_int_t)trace->arrows, "bp", "e", "pid",
                           PROCESS, "tid", thread_of(trace, command), "ts",
                           microseconds(run->begin_ns + run->clocks->begin_ns[command])));
}

static remat_status append_run(void *user, const struct dump_run *run)
{
    struct trace *trace = user;
    for (uint32_t c = run->segment->command_begin; c < run->segment->command_end; c++) {
        uint32_t original = trace->originals[c];
        append_slice(trace, run, c);
        if (original == REMAT_NONE || original < run->segment->command_begin)
            continue;
        trace->arrows++;
        append_end(trace, run, original, "s");
        append_end(trace, run, c, "f");
    }
    return REMAT_OK;
}

remat_status dump_step_trace(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const struct dump_asked *asked,
                             struct remat_text *out)
{
    (void)asked;
    remat_status st = REMAT_OK;
    struct trace trace = {.program = program, .out = out};
    REMAT_TRY(dump_originals(arena, program, &trace.originals));
    remat_text_append(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    append_name(&trace, "", "process_name", 0, "predicted");
    append_name(&trace, ",\n", "thread_name", COMPUTATION, "computation");
    append_name(&trace, ",\n", "thread_name", TRANSFERS, "transfers");
    if (program->mesh_count > 1)
        append_name(&trace, ",\n", "thread_name", TRANSFERS + 1, "transfers 2");
    if (program->depth)
        append_labels(&trace);
    REMAT_TRY(dump_script(ctx, arena, program, append_run, &trace));
    remat_text_append(out, "\n]}\n");
    if (trace.failed)
        REMAT_FAIL(ctx, REMAT_ERROR_OTHER,
                   "cannot make the JSON: out of memory, or a name is not UTF-8");
fail:
    return st;
}
