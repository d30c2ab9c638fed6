/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler.h"

#include "json_file.h"
#include "tool.h"

#include <stdlib.h>

remat_status profiler_open(remat_context *ctx, const remat_plan *plan, struct profiler *out)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    *out = (struct profiler){.plan = plan, .command_count = info.command_count};
    out->commands = calloc(info.command_count + 1, sizeof *out->commands);
    return out->commands ? REMAT_OK : cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
}

void profiler_add(struct profiler *profile, const remat_trace_event *event)
{
    struct profiler_command *command = &profile->commands[event->command];
    command->kernel = event->kernel;
    command->flops = event->flops;
    command->moved_bytes = event->moved_bytes;
    command->runs.ns[command->runs.count++ % PROFILER_SAMPLES] = event->duration_ns;
}

static bool is_transfer(const struct profiler_command *command)
{
    return strcmp(command->kernel, "exchange") == 0 || strcmp(command->kernel, "gather") == 0;
}

void profiler_merge(struct profiler *profile, uint32_t command, const struct profiler_runs *other)
{
    struct profiler_command *mine = &profile->commands[command];
    for (uint32_t i = 0; i < PROFILER_SAMPLES && i < mine->runs.count; i++) {
        bool shorter = other->ns[i] < mine->runs.ns[i];
        if (other->count == mine->runs.count && shorter == is_transfer(mine))
            mine->runs.ns[i] = other->ns[i];
    }
}

/* Commands of one kernel and size: their samples together. */
struct profile_row {
    const char *kernel;
    char *operands;
    uint64_t flops, moved_bytes, count;
    uint64_t *ns;
    size_t sample_count;
};

struct profile_rows {
    struct profile_row *items;
    uint32_t count;
};

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(struct profile_row *row)
{
    qsort(row->ns, row->sample_count, sizeof *row->ns, compare_ns);
    size_t half = row->sample_count / 2;
    return row->sample_count % 2 ? row->ns[half] : (row->ns[half - 1] + row->ns[half]) / 2;
}

/* The row of a command; NULL when out of memory. */
static struct profile_row *find_row(struct profile_rows *rows,
                                    const struct profiler_command *command, const char *operands)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        struct profile_row *row = &rows->items[r];
        if (strcmp(row->kernel, command->kernel) == 0 && strcmp(row->operands, operands) == 0 &&
            row->flops == command->flops && row->moved_bytes == command->moved_bytes)
            return row;
    }
    struct profile_row *row = &rows->items[rows->count];
    *row = (struct profile_row){.kernel = command->kernel,
                                .operands = strdup(operands),
                                .flops = command->flops,
                                .moved_bytes = command->moved_bytes};
    if (!row->operands)
        return NULL;
    rows->count++;
    return row;
}

static bool add_command(struct profile_rows *rows, const struct profiler *profile, uint32_t c)
{
    const struct profiler_command *command = &profile->commands[c];
    uint64_t count = command->runs.count;
    size_t samples = count < PROFILER_SAMPLES ? count : PROFILER_SAMPLES;
    size_t bytes = remat_plan_command_operands(profile->plan, c, NULL, 0);
    char *operands = malloc(bytes);
    struct profile_row *row = NULL;
    if (operands) {
        remat_plan_command_operands(profile->plan, c, operands, bytes);
        row = find_row(rows, command, operands);
    }
    free(operands);
    uint64_t *ns = row ? realloc(row->ns, (row->sample_count + samples) * sizeof *row->ns) : NULL;
    if (!ns)
        return false;
    memcpy(ns + row->sample_count, command->runs.ns, samples * sizeof *ns);
    row->ns = ns;
    row->sample_count += samples;
    row->count += count;
    return true;
}

static json_t *make_kernels(const struct profiler *profile)
{
    struct profile_rows rows = {.items = calloc(profile->command_count + 1, sizeof *rows.items)};
    json_t *kernels = json_array();
    bool complete = rows.items && kernels;
    for (uint32_t c = 0; c < profile->command_count && complete; c++)
        if (profile->commands[c].kernel)
            complete = add_command(&rows, profile, c);
    for (uint32_t r = 0; r < rows.count; r++) {
        struct profile_row *row = &rows.items[r];
        if (complete)
            complete = json_array_append_new(
                           kernels,
                           json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "kernel", row->kernel, "operands",
                                     row->operands, "flops", (json_int_t)row->flops, "moved_bytes",
                                     (json_int_t)row->moved_bytes, "count", (json_int_t)row->count,
                                     "median_ns", (json_int_t)median(row))) == 0;
        free(row->operands);
        free(row->ns);
    }
    free(rows.items);
    if (!complete) {
        json_decref(kernels);
        return NULL;
    }
    return kernels;
}

remat_status profiler_write(remat_context *ctx, struct remat_outputs *outputs,
                            const struct profiler *profile, const char *path,
                            const remat_session *session)
{
    json_t *kernels = make_kernels(profile), *root = NULL;
    const char *arch = remat_session_device_arch(session);
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(profile->plan, &info);
    if (kernels) /* without "arch" where the device has none, without "mesh" of one rank */
        root = json_pack("{s:s,s:s,s:s,s:s*,s:I,s:s*,s:o}", "schema", "remat-profile/1", "producer",
                         cli_producer(), "device", remat_session_device_name(session), "arch",
                         *arch ? arch : NULL, "threads", (json_int_t)remat_session_threads(session),
                         "mesh", *info.mesh ? info.mesh : NULL, "kernels", kernels);
    return json_file_write(ctx, outputs, path, root, 1);
}

void profiler_release(struct profiler *profile)
{
    free(profile->commands);
    profile->commands = NULL;
}
