/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ragged shapes: emitted kernels in the emulator, and the CPU device, against
 * float64; threads and blocks in order and in random order, and the same bits whatever a block
 * owns.
 *
 *     test_attention COMPILER [NUMBER] */
#include "attention.h"
#include "check.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

/* What blocks own: as much as fits, or as little as there is. */
static const struct remat_cuda_settings settings[] = {{1, 64, 0, REMAT_COLUMN_SUMS},
                                                      {1 << 30, 64, 0, REMAT_COLUMN_SUMS}};

static const struct attention_sizes sizes[] = {
#define SIZES(dtype, layout, segments, ...)                                                        \
    {__VA_ARGS__, REMAT_##dtype, ATTENTION_##layout, SEGMENTS_##segments},
#include "attention_sizes.def"
};
#define SIZES_COUNT (sizeof sizes / sizeof *sizes)

static const char *run_cpu(remat_context *ctx, const struct attention_case *c)
{
    struct remat_device *cpu;
    const struct remat_device_params params = {.threads = 1};
    if (remat_cpu_device.create(ctx, &c->program, &params, &cpu) ||
        remat_cpu_device.bind(cpu, NULL))
        return remat_context_message(ctx);
    memcpy(cpu->memory, c->initial, c->program.arena_bytes);
    remat_status st = remat_cpu_device.begin(cpu);
    st = st ? st : remat_cpu_device.execute(cpu, 0);
    st = st ? st : remat_cpu_device.execute(cpu, 1);
    st = st ? st : remat_cpu_device.end(cpu);
    const char *fault = st ? remat_context_message(ctx) : attention_compare(c, cpu->memory);
    remat_cpu_device.destroy(&cpu);
    return fault;
}

int main(int argc, char **argv)
{
    static struct attention_case cases[SIZES_COUNT][2];
    uint32_t only = argc > 2 ? (uint32_t)atoi(argv[2]) : SIZES_COUNT;
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    for (uint32_t n = 0; n < SIZES_COUNT; n++)
        for (uint32_t k = 0; k < 2 && (only == SIZES_COUNT || only == n); k++) {
            attention_make(ctx, &arena, &sizes[n], &settings[k], &cases[n][k]);
            attention_append_text(&cases[n][k], &text);
        }
    void *library = kernels_compile(argv[1], text.items);
    for (uint32_t n = 0; n < SIZES_COUNT; n++) {
        if (only != SIZES_COUNT && only != n)
            continue;
        uint64_t hash[2] = {0};
        /* the CPU device has no f16 */
        const char *fault = sizes[n].dtype == REMAT_F16 ? NULL : run_cpu(ctx, &cases[n][0]);
        for (uint32_t k = 0; k < 2 && !fault; k++) {
            hash[k] = hash[0];
            fault = attention_run(&cases[n][k], library, k ? 1 : 2, &hash[k]);
        }
        if (!fault && hash[0] != hash[1])
            fault = "other bits where blocks own fewer rows";
        printf("%2u ", n);
        attention_print(&cases[n][0]);
        printf(": %s\n", fault ? fault : "ok");
        CHECK(!fault, "%u: %s", n, fault);
        free(cases[n][0].initial);
        free(cases[n][1].initial);
    }
    kernels_close(library);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
