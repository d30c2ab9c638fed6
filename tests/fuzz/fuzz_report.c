/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated curves and traces against the readers of the report of remat-dump.
 *
 *     fuzz_report [iterations (default: 20000)] [seed (default: 1)]
 *
 * A reader must answer OK or INVALID with a message that begins with the file's name. Of what it
 * takes, numbers are finite and not negative, and commands are those of the plan. */
#include "check.h"
#include "mutate.h"
#include "report_html.h"

#include <math.h>
#include <sample_program.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CSV, JSON, TRACE, SEEDS };

#define CAPACITY (1 << 14)

static const char csv[] = "budget,feasible,peak,time,overhead,lower_bound,gap\n"
                          "2000000,1,1900000,150000,0.5,149000,0.0067\n"
                          "1000000,1,900000,175000.5,0.75,,\n"
                          "500000,0,,,,,\n";
static const char json[] =
    "{\"schema\": \"remat-curve/1\", \"points\": [{\"budget\": 2000000, \"feasible\": true,"
    " \"time\": 150000, \"lower_bound\": 149000.25}, {\"budget\": 1000000, \"feasible\": true,"
    " \"time\": 1e5, \"lower_bound\": null}, {\"budget\": 5, \"feasible\": false}]}";

static void seed_text(const char *text, struct bytes *out)
{
    memcpy(out->data, text, out->count = strlen(text));
}

/* Two runs of each command, and what is no command. */
static void seed_trace(const struct remat_program *program, struct bytes *out)
{
    char event[256];
    seed_text("{\"traceEvents\": [{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\"}", out);
    for (uint32_t run = 0; run < 2; run++)
        for (uint32_t c = 0; c < program->command_count && out->count < 4096; c++) {
            int length =
                snprintf(event, sizeof event,
                         ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 0, \"name\": \"%s\", "
                         "\"ts\": %u.5, \"dur\": 2, \"args\": {\"command\": %u}}",
                         program->commands[c].name, (unsigned)(100 * run + 3 * c), (unsigned)c);
            MUST(length > 0 && length < (int)sizeof event);
            memcpy(out->data + out->count, event, (size_t)length);
            out->count += (size_t)length;
        }
    memcpy(out->data + out->count, "]}", 2);
    out->count += 2;
}

static bool is_figure(const json_t *value)
{
    return json_is_null(value) || (json_is_number(value) && isfinite(json_number_value(value)) &&
                                   json_number_value(value) >= 0);
}

static void check_points(uint64_t iteration, const json_t *points)
{
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        bool feasible = json_is_true(json_object_get(point, "feasible"));
        CHECK(json_is_number(json_object_get(point, "budget")) &&
                  is_figure(json_object_get(point, "budget")) &&
                  is_figure(json_object_get(point, "time")) &&
                  is_figure(json_object_get(point, "lower_bound")) &&
                  json_is_null(json_object_get(point, "time")) != feasible,
              "iteration %llu: point %zu", (unsigned long long)iteration, i);
    }
}

static void check_events(uint64_t iteration, const struct remat_program *program,
                         const json_t *events)
{
    CHECK(json_array_size(events), "iteration %llu: no event", (unsigned long long)iteration);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        json_int_t command = json_integer_value(json_object_get(event, "command"));
        CHECK(command >= 0 && command < program->command_count &&
                  json_integer_value(json_object_get(event, "runs")) > 0 &&
                  is_figure(json_object_get(event, "start_ns")) &&
                  is_figure(json_object_get(event, "last_ns")) &&
                  is_figure(json_object_get(event, "ns")),
              "iteration %llu: event %zu", (unsigned long long)iteration, i);
    }
}

static bool run_once(uint64_t iteration, const struct remat_program *program, int kind,
                     const struct bytes *contents)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct dump_json out = {json_object(), false};
    char path[32];
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(ctx && file >= 0 &&
         write(file, contents->data, contents->count) == (ssize_t)contents->count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    remat_arena_init(&arena, ctx);
    remat_status st = kind == TRACE ? dump_measured_json(ctx, &arena, program, path, &out)
                                    : dump_curve_json(ctx, &arena, path, &out);
    if (st != REMAT_OK)
        CHECK(st == REMAT_ERROR_INVALID && strncmp(ctx->message, path, strlen(path)) == 0,
              "iteration %llu: %d %s", (unsigned long long)iteration, st, ctx->message);
    else if (kind == TRACE)
        check_events(iteration, program, json_object_get(out.object, "events"));
    else
        check_points(iteration, json_object_get(out.object, "points"));
    CHECK(!out.failed, "iteration %llu: the JSON failed", (unsigned long long)iteration);
    json_decref(out.object);
    close(file);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return st == REMAT_OK;
}

int main(int argc, char **argv)
{
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, accepted[SEEDS] = {0};
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    struct bytes seeds[SEEDS] = {{0}}, file = {.data = malloc(CAPACITY), .capacity = CAPACITY};
    struct sample sample;
    MUST(file.data);
    sample_program(&sample);
    for (int kind = CSV; kind < SEEDS; kind++)
        MUST((seeds[kind] = (struct bytes){malloc(CAPACITY), 0, CAPACITY}).data);
    seed_text(csv, &seeds[CSV]);
    seed_text(json, &seeds[JSON]);
    seed_trace(&sample.program, &seeds[TRACE]);
    for (int kind = CSV; kind < SEEDS; kind++)
        CHECK(run_once(0, &sample.program, kind, &seeds[kind]), "seed %d is refused", kind);
    for (uint64_t i = 1; i <= iterations; i++) {
        int kind = CSV + (int)(i % 3);
        memcpy(file.data, seeds[kind].data, file.count = seeds[kind].count);
        mutate(&random, &file, &seeds[CSV + (int)random_below(&random, 3)]);
        accepted[kind] += run_once(i, &sample.program, kind, &file);
    }
    for (int kind = CSV; kind < SEEDS; kind++) {
        printf("%d: %llu of %llu accepted\n", kind, (unsigned long long)accepted[kind],
               (unsigned long long)iterations / 3);
        CHECK(iterations < 3000 || (accepted[kind] > 10 && accepted[kind] < iterations / 3),
              "%d: %llu are accepted", kind, (unsigned long long)accepted[kind]);
        free(seeds[kind].data);
    }
    free(file.data);
    return check_exit();
}
