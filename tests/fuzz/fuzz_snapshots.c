/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated snapshots of PyTorch's memory against the reader of remat-dump.
 *
 *     fuzz_snapshots [iterations (default: 30000)] [seed (default: 1)]
 *
 * The reader must answer OK or INVALID with a message that begins with the file's name, within
 * memory proportional to the file. The classes of a peak that it finds add up to it. */
#include "check.h"
#include "counting.h"
#include "dump.h"
#include "formats.h"
#include "mutate.h"
#include "snapshot_peak.h"

#include <sample_program.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_PER_BYTE 512
#define MEMORY_FIXED    (1u << 20)

/* By Python's pickler, protocol 4: a memo by order, a stack that a block and an event share. */
static const char python[] =
    "\x80\x04\x95\x8a\x01\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94}\x94(\x8c"
    "\x06"
    "device\x94K\x00\x8c\x07"
    "address\x94\x8a\x06\x00\x00\x00\x00\x00\x10\x8c\x0atot"
    "al_size\x94M\x00 \x8c\x06stream\x94K\x00\x8c\x0fsegment_pool_id\x94K\x00K\x00\x86\x94"
    "\x8c\x06"
    "blocks\x94]\x94}\x94(\x8c\x04size\x94M\x00 \x8c\x0erequested_size\x94M\x00"
    "\x10\x8c\x05state\x94\x8c\x10"
    "active_allocated\x94\x8c\x06"
    "frames\x94]\x94}\x94("
    "\x8c\x08"
    "filename\x94\x8c\x13torch/optim/adam.py\x94\x8c\x04line\x94K\x07\x8c\x04name"
    "\x94\x8c\x04step\x94uauaua\x8c\x0d"
    "device_traces\x94]\x94]\x94(}\x94(\x8c\x06"
    "actio"
    "n\x94\x8c\x05"
    "alloc\x94\x8c\x04"
    "addr\x94J\x00\x00\x01\x00h\x0dM\x00\x02h\x11h\x12"
    "\x8c\x07time_us\x94G\x3f\xf8\x00\x00\x00\x00\x00\x00u}\x94(h\x1d\x8c\x0e"
    "free_complet"
    "ed\x94h\x1fJ\x00\x00\x01\x00h\x0dM\x00\x02h\x11]\x94u}\x94(h\x1dh\x1eh\x1fJ\x00\x00\x01"
    "\x00h\x0dM\x84\x03h\x11Nueau.";

static void seed_plan(struct bytes *out)
{
    struct sample sample;
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_text text = {.arena = &arena};
    const struct dump_asked asked = {0};
    sample_program(&sample);
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    MUST(dump_snapshot(ctx, &arena, &sample.program, &asked, &text) == REMAT_OK);
    MUST(!text.failed && text.count < out->capacity);
    memcpy(out->data, text.items, out->count = text.count);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

static void seed_python(struct bytes *out)
{
    memcpy(out->data, python, out->count = sizeof python - 1);
}

static bool run_once(uint64_t iteration, const struct bytes *file)
{
    struct counting counting = {.limit_bytes = UINT64_MAX};
    remat_allocator allocator = counting_allocator(&counting);
    remat_context *ctx = remat_context_create(&allocator, NULL);
    struct remat_arena arena;
    struct snapshot_peak peak;
    uint64_t sum = 0;
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    remat_status st = snapshot_peak_find(ctx, &arena, "fuzz", file->data, file->count, &peak);
    for (uint32_t class = 0; st == REMAT_OK && class <= SNAPSHOT_NOT_RECORDED; class ++)
        sum += peak.bytes[class];
    if (st == REMAT_OK)
        CHECK(sum == peak.peak_bytes, "iteration %llu: classes add up to %llu of %llu",
              (unsigned long long)iteration, (unsigned long long)sum,
              (unsigned long long)peak.peak_bytes);
    else
        CHECK(st == REMAT_ERROR_INVALID && strncmp(ctx->message, "fuzz: ", 6) == 0,
              "iteration %llu: %d %s", (unsigned long long)iteration, st, ctx->message);
    CHECK(counting.peak_bytes <= MEMORY_FIXED + MEMORY_PER_BYTE * file->count,
          "iteration %llu: %zu bytes for a file of %zu", (unsigned long long)iteration,
          (size_t)counting.peak_bytes, file->count);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return st == REMAT_OK;
}

int main(int argc, char **argv)
{
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 30000, accepted = 0;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    struct bytes seeds[2] = {{.capacity = 1 << 16}, {.capacity = 1 << 16}},
                 file = {.capacity = 1 << 16};
    for (uint32_t s = 0; s < 2; s++)
        MUST((seeds[s].data = malloc(seeds[s].capacity)));
    MUST((file.data = malloc(file.capacity)));
    seed_plan(&seeds[0]);
    seed_python(&seeds[1]);
    for (uint32_t s = 0; s < 2; s++)
        CHECK(run_once(0, &seeds[s]), "seed %u is refused", (unsigned)s);
    for (uint64_t i = 1; i <= iterations; i++) {
        const struct bytes *seed = &seeds[i % 2];
        memcpy(file.data, seed->data, file.count = seed->count);
        mutate(&random, &file, &seeds[1 - i % 2]);
        accepted += run_once(i, &file);
    }
    CHECK(iterations < 1000 || (accepted > iterations / 100 && accepted < iterations),
          "%llu of %llu are accepted", (unsigned long long)accepted,
          (unsigned long long)iterations);
    printf("%llu of %llu accepted\n", (unsigned long long)accepted, (unsigned long long)iterations);
    for (uint32_t s = 0; s < 2; s++)
        free(seeds[s].data);
    free(file.data);
    return check_exit();
}
