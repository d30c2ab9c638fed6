/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of loading plans: bench_load [PRESET...]. By stage: structure and text (the FlatBuffer
 * becomes native structs), remat_program_verify, remat_program_simulate; the best of several. Then
 * the last two for plans of a few MB that nobody would compile: all buffers live at once, or one
 * buffer with a long chain of updates that each tensor begins, and 64 segments that are the whole
 * of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "compile.h"
#include "models.h"
#include "program.h"

#define RUNS     10
#define HOSTILE  30000 /* commands */
#define SEGMENTS REMAT_SEGMENTS_MAX

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double best_of(remat_context *ctx, const struct remat_program *program, unsigned runs,
                      remat_status (*stage)(remat_context *ctx,
                                            const struct remat_program *program))
{
    double best = 1e300;
    for (unsigned r = 0; r < runs; r++) {
        double start = cpu_ms();
        if (stage(ctx, program) != REMAT_OK) {
            printf("%s\n", remat_context_message(ctx));
            exit(1);
        }
        double ms = cpu_ms() - start;
        best = ms < best ? ms : best;
    }
    return best;
}

static void print(remat_context *ctx, const char *name, const struct remat_program *program,
                  unsigned runs)
{
    double verify_ms = best_of(ctx, program, runs, remat_program_verify);
    double simulate_ms = best_of(ctx, program, runs, remat_program_simulate);
    printf("%-28s %6" PRIu32 " commands %6" PRIu32
           " buffers   verify %8.2f ms   simulate %8.2f ms\n",
           name, program->command_count, program->buffer_count, verify_ms, simulate_ms);
}

static remat_status measure(remat_context *ctx, const char *preset, bool full, unsigned runs)
{
    remat_status st = REMAT_OK;
    struct remat_arena arena, loaded;
    struct remat_graph *graph;
    struct remat_model_settings model;
    struct remat_compile_settings settings = {0};
    struct remat_program *program;
    const void *data;
    size_t bytes;
    double best = 1e300;
    remat_arena_init(&arena, ctx);
    remat_arena_init(&loaded, ctx);
    if (full)
        settings.search.policy = (struct remat_policy_settings){.recompute_granularity = "full",
                                                                .recompute_method = "uniform",
                                                                .has_recompute_num_layers = true,
                                                                .recompute_num_layers = 1};
    REMAT_TRY(remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    REMAT_TRY(remat_model_preset(ctx, preset, &model));
    REMAT_TRY(remat_model_generate(ctx, &arena, &model, &graph));
    REMAT_TRY(remat_compile(ctx, &arena, graph, &settings, &program));
    REMAT_TRY(remat_program_write(ctx, program, &arena, &data, &bytes));
    for (unsigned r = 0; r < runs; r++) {
        double start = cpu_ms();
        REMAT_TRY(remat_program_read(ctx, preset, data, bytes, &loaded, &program));
        double ms = cpu_ms() - start;
        best = ms < best ? ms : best;
        if (r + 1 < runs)
            remat_arena_reset(&loaded);
    }
    print(ctx, full ? "  full recomputation" : preset, program, runs);
    printf("%-28s %zu bytes, all of loading %.2f ms\n", "", bytes, best);
fail:
    remat_arena_release(&loaded);
    remat_arena_release(&arena);
    return st;
}

/* --- plans that nobody would compile --- */

struct hostile {
    struct remat_program program;
    struct remat_buffer buffers[HOSTILE];
    struct remat_program_value values[HOSTILE + 1];
    struct remat_operand operands[HOSTILE];
    struct remat_command commands[HOSTILE];
    struct remat_tensor tensors[HOSTILE];
    char names[HOSTILE][8];
    struct remat_segment segments[SEGMENTS];
    struct remat_kernel kernel;
    double parameters[1];
};

static void make(struct hostile *h, bool chain)
{
    struct remat_program *p = &h->program;
    memset(h, 0, sizeof *h);
    for (uint32_t i = 0; i <= HOSTILE; i++)
        h->values[i] = (struct remat_program_value){.name = "v",
                                                    .scope = "",
                                                    .layer = -1,
                                                    .dtype = REMAT_I32,
                                                    .role = REMAT_ROLE_OPTIMIZER_STATE,
                                                    .bytes = 4,
                                                    .buffer = chain ? 0 : i};
    for (uint32_t i = 0; i < HOSTILE; i++) {
        h->buffers[i] =
            (struct remat_buffer){256 * (uint64_t)i, 256, chain ? 0 : i, HOSTILE, chain};
        h->operands[i] =
            (struct remat_operand){.value = chain ? i + 1 : i,
                                   .previous = chain ? i : REMAT_NONE,
                                   .access = chain ? REMAT_ACCESS_UPDATE : REMAT_ACCESS_WRITE,
                                   .dtype = REMAT_I32,
                                   .rank = chain,
                                   .shape = {1},
                                   .strides = {1}};
        h->commands[i] = (struct remat_command){.operand_begin = i,
                                                .operand_end = i + 1,
                                                .parameter_end = 1,
                                                .name = "c",
                                                .scope = "",
                                                .live_bytes = 256 * (uint64_t)(chain ? 1 : i + 1)};
        snprintf(h->names[i], sizeof h->names[i], "t%" PRIu32, i);
        h->tensors[i] = (struct remat_tensor){.name = h->names[i]};
    }
    h->parameters[0] = 1;
    h->kernel =
        (struct remat_kernel){.kind = chain ? REMAT_KERNEL_advance : REMAT_KERNEL_fill, .key = "k"};
    for (uint32_t s = 0; s < SEGMENTS; s++)
        h->segments[s] = (struct remat_segment){"s", 0, HOSTILE};
    *p = (struct remat_program){.producer = "",
                                .graph_name = "",
                                .target = "",
                                .policy = "",
                                .number_tensor = REMAT_NONE,
                                .buffer_count = chain ? 1 : HOSTILE,
                                .value_count = chain ? HOSTILE + 1 : HOSTILE,
                                .operand_count = HOSTILE,
                                .kernel_count = 1,
                                .command_count = HOSTILE,
                                .segment_count = SEGMENTS,
                                .tensor_count = chain ? HOSTILE : 0,
                                .parameter_count = 1,
                                .buffers = h->buffers,
                                .values = h->values,
                                .operands = h->operands,
                                .kernels = &h->kernel,
                                .commands = h->commands,
                                .segments = h->segments,
                                .tensors = h->tensors,
                                .parameters = h->parameters};
    p->arena_bytes = p->touched_bytes = p->peak_bytes = 256 * (uint64_t)p->buffer_count;
    p->static_bytes = chain ? 256 : 0;
    p->peak_command = chain ? 0 : HOSTILE - 1;
}

int main(int argc, char **argv)
{
    remat_status st = REMAT_OK;
    static struct hostile hostile;
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (!ctx)
        return 1;
    unsigned runs = argc > 1 ? 1 : RUNS;
    for (int k = 1; k < (argc > 1 ? argc : 2) && !st; k++)
        for (int full = 0; full < 2 && !st; full++)
            st = measure(ctx, argc > 1 ? argv[k] : "gpt3-175b", full, runs);
    if (st)
        printf("%s\n", remat_context_message(ctx));
    make(&hostile, false);
    print(ctx, "all buffers live at once", &hostile.program, 1);
    make(&hostile, true);
    print(ctx, "a chain of updates", &hostile.program, 1);
    remat_context_destroy(&ctx);
    return st != REMAT_OK;
}
