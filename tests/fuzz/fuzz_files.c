/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated graph and plan files against their readers.
 *
 *     fuzz_files [iterations (default: 200000)] [seed (default: 1)]
 *
 * A reader must answer OK or INVALID, within memory proportional to the file, within a second, and
 * give everything back; what it accepts must survive being replayed, written and read again. Then
 * each reader and writer with its n-th allocation failing, for every n. */
#include "check.h"
#include "counting.h"
#include "ingest.h"
#include "mutate.h"
#include "ops.h"
#include "program.h"

#include <program.h>
#include <reader.h>
#include <sample_graph.h>
#include <sample_microbatches.h>
#include <sample_program.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MEMORY_PER_BYTE 128
#define MEMORY_FIXED    (2u << 20)
#define SECONDS_MAX     1.0

struct target {
    const char *name;
    remat_status (*seed)(remat_context *ctx, struct remat_arena *arena, const void **data,
                         size_t *bytes);
    /* Reads and uses what was read; INTERNAL is never an answer. */
    remat_status (*run)(remat_context *ctx, struct remat_arena *arena, const void *data,
                        size_t bytes);
};

/* --- the two formats --- */

static remat_status seed_graph(remat_context *ctx, struct remat_arena *arena, const void **data,
                               size_t *bytes)
{
    return remat_graph_write(ctx, sample_graph(arena), arena, data, bytes);
}

static remat_status seed_symbolic(remat_context *ctx, struct remat_arena *arena, const void **data,
                                  size_t *bytes)
{
    struct remat_graph *graph;
    remat_status st = sample_symbolic(ctx, arena, &graph);
    return st == REMAT_OK ? remat_graph_write(ctx, graph, arena, data, bytes) : st;
}

static remat_status run_graph(remat_context *ctx, struct remat_arena *arena, const void *data,
                              size_t bytes)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph, *again;
    const void *copy;
    size_t copy_bytes;
    REMAT_TRY(remat_graph_read(ctx, "fuzz", data, bytes, arena, &graph));
    if (remat_graph_write(ctx, graph, arena, &copy, &copy_bytes) != REMAT_OK ||
        remat_graph_read(ctx, "fuzz", copy, copy_bytes, arena, &again) != REMAT_OK ||
        remat_graph_hash(graph) != remat_graph_hash(again))
        return strstr(ctx->message, "out of memory") ? REMAT_ERROR_MEMORY : REMAT_ERROR_INTERNAL;
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        if (graph->symbols[k].value == 0)
            REMAT_TRY(remat_graph_set_symbol(ctx, graph, graph->symbols[k].name, 3));
    st = remat_reader_prefix(&(struct remat_reader){.ctx = ctx, .name = "fuzz"},
                             remat_graph_bind(ctx, arena, graph, &again));
fail:
    return st;
}

static remat_status seed_plan(remat_context *ctx, struct remat_arena *arena, const void **data,
                              size_t *bytes)
{
    struct sample sample;
    sample_program(&sample);
    return remat_program_write(ctx, &sample.program, arena, data, bytes);
}

/* What is multiplied is a constant of the plan. */
static remat_status seed_constants(remat_context *ctx, struct remat_arena *arena, const void **data,
                                   size_t *bytes)
{
    static const float elements[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct sample sample;
    sample_program(&sample);
    sample.values[X].role = REMAT_ROLE_CONSTANT;
    sample.tensors[1].data = elements;
    sample.tensors[1].data_bytes = sizeof elements;
    return remat_program_write(ctx, &sample.program, arena, data, bytes);
}

static remat_status seed_microbatches(remat_context *ctx, struct remat_arena *arena,
                                      const void **data, size_t *bytes)
{
    struct sample_microbatches sample;
    sample_microbatches(&sample);
    return remat_program_write(ctx, &sample.program, arena, data, bytes);
}

static remat_status run_plan(remat_context *ctx, struct remat_arena *arena, const void *data,
                             size_t bytes)
{
    remat_status st = REMAT_OK;
    struct remat_program *program, *again;
    const void *copy;
    size_t copy_bytes;
    REMAT_TRY(remat_program_read(ctx, "fuzz", data, bytes, arena, &program));
    st = remat_program_simulate(ctx, program); /* INTERNAL: a well-formed program with a fault */
    if (st == REMAT_ERROR_MEMORY)
        return st;
    st = REMAT_OK;
    if (remat_program_write(ctx, program, arena, &copy, &copy_bytes) != REMAT_OK ||
        remat_program_read(ctx, "fuzz", copy, copy_bytes, arena, &again) != REMAT_OK)
        st = strstr(ctx->message, "out of memory") ? REMAT_ERROR_MEMORY : REMAT_ERROR_INTERNAL;
fail:
    return st;
}

static const struct target targets[] = {{"graph", seed_graph, run_graph},
                                        {"symbolic", seed_symbolic, run_graph},
                                        {"plan", seed_plan, run_plan},
                                        {"constants", seed_constants, run_plan},
                                        {"microbatches", seed_microbatches, run_plan}};
#define TARGET_COUNT (sizeof targets / sizeof targets[0])

struct trial {
    const struct target *target;
    remat_context *ctx;
    struct remat_arena *arena;
    bool seeds; /* makes the seed first */
    const void *data;
    size_t bytes;
};

static remat_status try_file(void *user)
{
    const struct trial *t = user;
    const void *data;
    size_t bytes;
    remat_status st = t->seeds ? t->target->seed(t->ctx, t->arena, &data, &bytes) : REMAT_OK;
    return st ? st : t->target->run(t->ctx, t->arena, t->data, t->bytes);
}

/* --- campaign --- */

static void report(const struct target *target, uint64_t iteration, const char *what,
                   const char *message)
{
    CHECK(false, "%s, iteration %llu: %s: %s", target->name, (unsigned long long)iteration, what,
          message);
}

/* Makes the container fit the mutated contents, so that the reader looks at them. */
static void repair(struct bytes *file)
{
    if (file->count < REMAT_CONTAINER_BYTES)
        return;
    uint64_t total = file->count;
    uint64_t hash =
        remat_hash(file->data + REMAT_CONTAINER_BYTES, file->count - REMAT_CONTAINER_BYTES, 0);
    memcpy(file->data, REMAT_CONTAINER_MAGIC, 4);
    memcpy(file->data + 8, &total, 8);
    memcpy(file->data + 16, &hash, 8);
}

static remat_status run_once(const struct target *target, uint64_t iteration,
                             const struct bytes *file, double *seconds_max)
{
    struct counting counting = {.limit_bytes =
                                    MEMORY_FIXED + (uint64_t)file->count * MEMORY_PER_BYTE};
    remat_allocator allocator = counting_allocator(&counting);
    remat_context *ctx = remat_context_create(&allocator, NULL);
    if (!ctx)
        return REMAT_ERROR_MEMORY;
    struct remat_arena arena;
    clock_t start = clock();
    remat_arena_init(&arena, ctx);
    struct trial trial = {target, ctx, &arena, false, file->data, file->count};
    remat_status st = remat_guard(ctx, try_file, &trial);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    *seconds_max = seconds > *seconds_max ? seconds : *seconds_max;
    if (counting.exceeded)
        report(target, iteration, "allocates too much", ctx->message);
    else if (st != REMAT_OK && st != REMAT_ERROR_INVALID)
        report(target, iteration, "wrong answer", ctx->message);
    if (st == REMAT_ERROR_INVALID && strncmp(ctx->message, "fuzz: ", 6) != 0)
        report(target, iteration, "message without the file's name", ctx->message);
    if (seconds > SECONDS_MAX)
        report(target, iteration, "takes too long", ctx->message);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    if (counting.live_bytes)
        report(target, iteration, "leaks", "");
    return st;
}

static void campaign(const struct target *target, const struct bytes *seed,
                     const struct bytes *other, uint64_t iterations, uint64_t random_seed)
{
    struct random random = {random_seed};
    struct bytes file = {.capacity = 4 * seed->count};
    uint64_t accepted = 0;
    double seconds_max = 0;
    clock_t start = clock();
    for (uint64_t i = 0; i < iterations; i++) {
        /* Memory of exactly the file's size, so that ASan sees a read after it. */
        file.data = malloc(file.capacity);
        MUST(file.data);
        memcpy(file.data, seed->data, file.count = seed->count);
        mutate(&random, &file, other);
        if (random_below(&random, 16))
            repair(&file);
        unsigned char *exact = realloc(file.data, file.count ? file.count : 1);
        file.data = exact ? exact : file.data;
        accepted += run_once(target, i, &file, &seconds_max) == REMAT_OK;
        free(file.data);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%s: %llu iterations, %llu accepted, %.0f per second, slowest %.4f s\n", target->name,
           (unsigned long long)iterations, (unsigned long long)accepted,
           (double)iterations / (seconds > 0 ? seconds : 1), seconds_max);
}

/* --- the n-th allocation fails --- */

static void fail_each_allocation(const struct target *target, const struct bytes *seed)
{
    remat_status st = REMAT_ERROR_MEMORY;
    uint64_t n = 0;
    while (st != REMAT_OK && n < 100000) {
        struct counting counting = {.fail_at = ++n + 1}; /* the first makes the context */
        remat_allocator allocator = counting_allocator(&counting);
        remat_context *ctx = remat_context_create(&allocator, NULL);
        struct remat_arena arena;
        struct trial trial = {target, ctx, &arena, true, seed->data, seed->count};
        remat_arena_init(&arena, ctx);
        st = remat_guard(ctx, try_file, &trial);
        if (st != REMAT_OK && st != REMAT_ERROR_MEMORY)
            report(target, n, "wrong answer to a failed allocation", ctx->message);
        remat_arena_release(&arena);
        remat_context_destroy(&ctx);
        if (counting.live_bytes)
            report(target, n, "leaks after a failed allocation", "");
    }
    if (st != REMAT_OK || n < 5)
        report(target, n, "never succeeds", "");
    printf("%s: each of %llu allocations failed once\n", target->name, (unsigned long long)(n - 1));
}

int main(int argc, char **argv)
{
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
    uint64_t random_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct bytes seeds[TARGET_COUNT];
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    for (size_t t = 0; t < TARGET_COUNT; t++) {
        const void *data;
        MUST_OK(ctx, targets[t].seed(ctx, &arena, &data, &seeds[t].count));
        seeds[t].data = remat_arena_array(&arena, seeds[t].count, 1);
        memcpy(seeds[t].data, data, seeds[t].count);
    }
    for (size_t t = 0; t < TARGET_COUNT; t++) {
        fail_each_allocation(&targets[t], &seeds[t]);
        campaign(&targets[t], &seeds[t], &seeds[(t + 1) % TARGET_COUNT], iterations, random_seed);
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
