/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated logs of training against the reader of remat-dump.
 *
 *     fuzz_logs [iterations (default: 20000)] [seed (default: 1)]
 *
 * The reader must answer OK or INVALID with a message that begins with the file's name and a line,
 * within memory proportional to the file. Steps that it reads ascend, and are in the file. */
#include "check.h"
#include "counting.h"
#include "mutate.h"
#include "step_lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_PER_BYTE 8
#define MEMORY_FIXED    (1u << 17)

static const char *const seeds[] = {
    "{\"step\":1,\"loss\":5.5318,\"lr\":1e-4,\"tokens\":256,\"tokens_per_s\":4053.5,\"step_ns\":"
    "63155,\"unix_s\":1.5}\n"
    "{\"step\":2,\"loss\":5.3266,\"eval_loss\":5.4,\"lr\":2e-4,\"tokens\":512,\"tokens_per_s\":9.5,"
    "\"step_ns\":7,\"unix_s\":2}\n"
    "{\"step\":3,\"loss\":null,\"eval_loss\":null,\"lr\":3e-4,\"tokens\":768,\"tokens_per_s\":1,"
    "\"step_ns\":9,\"unix_s\":3.25}\n",
    "{\"step\":7,\"loss\":1.5,\"tokens_per_s\":10.125,\"step_ns\":12,\"loss_hash\":\"00ff\",\"grad_"
    "hash\":\"ff00\"}\n"
    "{\"step\":8,\"loss\":-0.5,\"tokens_per_s\":10,\"step_ns\":12,\"loss_hash\":\"00ff\",\"grad_"
    "hash\":\"ff00\"}\r\n"
    "{\"step\":8,\"loss\":2,\"further\":[{}]}\n"
    "{\"loss\":3, \"step\":9}\n",
};

static void check_lines(uint64_t iteration, const struct bytes *file,
                        const struct step_lines *lines)
{
    size_t ends = 1;
    for (size_t i = 0; i < file->count; i++)
        ends += file->data[i] == '\n';
    CHECK(lines->count > 0 && lines->count <= ends, "iteration %llu: %zu steps in %zu lines",
          (unsigned long long)iteration, lines->count, ends);
    for (size_t i = 0; i < lines->count; i++) {
        const double *of = lines->items[i].of;
        CHECK(of[FIGURE_STEP] >= 1 && of[FIGURE_STEP] == floor(of[FIGURE_STEP]) &&
                  (i == 0 || of[FIGURE_STEP] > lines->items[i - 1].of[FIGURE_STEP]),
              "iteration %llu: step %g", (unsigned long long)iteration, of[FIGURE_STEP]);
        for (int figure = 0; figure < FIGURES; figure++)
            CHECK(!isinf(of[figure]) && !(fabs(of[figure]) > 3.5e38), "iteration %llu: %s is %g",
                  (unsigned long long)iteration, step_figure_names[figure], of[figure]);
    }
}

static bool run_once(uint64_t iteration, const struct bytes *file)
{
    struct counting counting = {.limit_bytes = UINT64_MAX};
    remat_allocator allocator = counting_allocator(&counting);
    remat_context *ctx = remat_context_create(&allocator, NULL);
    struct remat_arena arena;
    struct step_lines lines;
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    remat_status st =
        step_lines_read(ctx, &arena, "fuzz", (const char *)file->data, file->count, &lines);
    if (st == REMAT_OK && file->count)
        check_lines(iteration, file, &lines);
    else if (st)
        CHECK(st == REMAT_ERROR_INVALID && strncmp(ctx->message, "fuzz:", 5) == 0 &&
                  ctx->message[5] >= '1' && ctx->message[5] <= '9',
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
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, accepted = 0;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    struct bytes originals[2], file = {.capacity = 1 << 14};
    MUST((file.data = malloc(file.capacity)));
    for (int s = 0; s < 2; s++) {
        originals[s].count = originals[s].capacity = strlen(seeds[s]);
        MUST((originals[s].data = malloc(originals[s].capacity)));
        memcpy(originals[s].data, seeds[s], originals[s].count);
        CHECK(run_once(0, &originals[s]), "seed %d is refused", s);
    }
    for (uint64_t i = 1; i <= iterations; i++) {
        const struct bytes *seed = &originals[i % 2];
        memcpy(file.data, seed->data, file.count = seed->count);
        mutate(&random, &file, &originals[1 - i % 2]);
        accepted += run_once(i, &file);
    }
    CHECK(iterations < 1000 || (accepted > iterations / 100 && accepted < iterations),
          "%llu of %llu are accepted", (unsigned long long)accepted,
          (unsigned long long)iterations);
    printf("%llu of %llu accepted\n", (unsigned long long)accepted, (unsigned long long)iterations);
    for (int s = 0; s < 2; s++)
        free(originals[s].data);
    free(file.data);
    return check_exit();
}
