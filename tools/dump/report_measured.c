/* SPDX-License-Identifier: Apache-2.0 */
/* Of a trace, the commands of rank 0: how long each took on average, and when it began in the last
 * run of its segment. */
#include "file.h"
#include "report_html.h"

#include <inttypes.h>
#include <math.h>

enum { FIRST_PROCESS = 1 }; /* of rank 0, as tools/run/chrome_trace.c writes it */
#define LARGEST_US 1e15

struct command_times {
    uint64_t runs;
    double start_us, us; /* of the last run */
    double all_us;
};

static bool read_us(const json_t *event, const char *key, double *out)
{
    const json_t *value = json_object_get(event, key);
    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out <= LARGEST_US;
}

/* As remat-dump --format trace names its only process: its times would lie beside themselves. */
static bool is_predicted(const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *of = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    return name && strcmp(name, "process_name") == 0 && of && strcmp(of, "predicted") == 0;
}

/* Events that are no command of rank 0 are left out. */
static remat_status read_event(remat_context *ctx, const char *path, size_t index,
                               const json_t *event, const struct remat_program *program,
                               struct command_times *measured)
{
    double start_us, us;
    const json_t *command = json_object_get(json_object_get(event, "args"), "command");
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    json_int_t c = json_integer_value(command);
    if (is_predicted(event))
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: traceEvents[%zu]: predicted times, of remat-dump; measured ones "
                           "are those of remat-run --trace",
                           path, index);
    if (!phase || strcmp(phase, "X") != 0 || !command ||
        json_integer_value(json_object_get(event, "pid")) != FIRST_PROCESS)
        return REMAT_OK;
    if (!json_is_integer(command) || c < 0 || c >= program->command_count)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: traceEvents[%zu]: args.command is no command of the plan, which "
                           "has %" PRIu32,
                           path, index, program->command_count);
    if (!name || strcmp(name, program->commands[c].name) != 0)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: traceEvents[%zu] is of another plan: command %" JSON_INTEGER_FORMAT
                           " is \"%s\" here, and \"%s\" in the plan",
                           path, index, c, name ? name : "", program->commands[c].name);
    if (!read_us(event, "ts", &start_us) || !read_us(event, "dur", &us))
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: traceEvents[%zu]: ts and dur are no numbers from 0 to 1e15", path,
                           index);
    struct command_times *of = &measured[c];
    of->runs++;
    of->all_us += us;
    if (start_us >= of->start_us) {
        of->start_us = start_us;
        of->us = us;
    }
    return REMAT_OK;
}

/* `root`: of a file. */
static remat_status read_events(remat_context *ctx, const char *path, const json_t *root,
                                const struct remat_program *program, struct command_times *measured)
{
    remat_status st = REMAT_OK;
    const json_t *events = json_is_array(root) ? root : json_object_get(root, "traceEvents");
    uint64_t runs = 0;
    if (!json_is_array(events))
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: not a trace: traceEvents is no array",
                           path);
    for (size_t i = 0; i < json_array_size(events); i++)
        REMAT_TRY(read_event(ctx, path, i, json_array_get(events, i), program, measured));
    for (uint32_t c = 0; c < program->command_count; c++)
        runs += measured[c].runs;
    if (!runs)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                   "%s: not a trace of remat-run: it has no command of "
                   "rank 0",
                   path);
fail:
    return st;
}

static void add_segment(const struct remat_segment *segment, const struct command_times *measured,
                        json_t *events, struct dump_json *out)
{
    double begin_us = INFINITY;
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
        if (measured[c].runs)
            begin_us = fmin(begin_us, measured[c].start_us);
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
        if (measured[c].runs)
            dump_push(out, events,
                      json_pack("{s:I,s:I,s:f,s:f,s:f}", "command", (json_int_t)c, "runs",
                                (json_int_t)measured[c].runs, "start_ns",
                                round(1000 * (measured[c].start_us - begin_us)), "last_ns",
                                round(1000 * measured[c].us), "ns",
                                round(1000 * measured[c].all_us / (double)measured[c].runs)));
}

remat_status dump_measured_json(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, const char *path,
                                struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct command_times *measured;
    char *data;
    size_t bytes;
    json_error_t error;
    json_t *root = NULL, *events = json_array();
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY_NEW(arena, measured, program->command_count);
    root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d:%d: %s", path, error.line, error.column,
                   error.text);
    REMAT_TRY(read_events(ctx, path, root, program, measured));
    for (uint32_t s = 0; s < program->segment_count; s++)
        add_segment(&program->segments[s], measured, events, out);
fail:
    dump_set(out, "events", events);
    json_decref(root);
    return st;
}
