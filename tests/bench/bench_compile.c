/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of compiling large models, by stage: bench_compile [PRESET...]. Each is compiled for a
 * budget of its persistent bytes and half of transient memory, by manual policies, also in eight
 * microbatches, and value by value; the total has everything from generating the graph to writing
 * the plan. Figures are of one run. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "compile.h"
#include "models.h"
#include "program.h"

static void print_stage(void *user, const char *stage, uint64_t ns, uint32_t runs)
{
    (void)user;
    printf("    %-18s %9.2f ms", stage, (double)ns / 1e6);
    if (runs > 1)
        printf(" in %4" PRIu32 " runs, %.3f ms each", runs, (double)ns / 1e6 / runs);
    printf("\n");
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static remat_status generate(remat_context *ctx, struct remat_arena *arena, const char *preset,
                             struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    REMAT_TRY(remat_model_preset(ctx, preset, &settings));
    settings.dtype = REMAT_BF16;
    REMAT_TRY(remat_model_generate(ctx, arena, &settings, out));
fail:
    return st;
}

/* What moves between the smallest plan and the one that saves everything: all but the persistent.
 */
static remat_status find_budget(remat_context *ctx, const struct remat_graph *graph,
                                struct remat_compile_settings *settings)
{
    remat_status st = REMAT_OK;
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    REMAT_TRY(remat_compile(ctx, &arena, graph, settings, &program));
    settings->search.has_budget = true;
    settings->search.budget_bytes =
        program->static_bytes + (program->arena_bytes - program->static_bytes) / 2;
fail:
    remat_arena_release(&arena);
    return st;
}

static remat_status measure(remat_context *ctx, const char *preset, enum remat_solver solver,
                            uint32_t microbatches)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings settings = {
        .has_reserve = true, .search.solver = solver, .passes.microbatches = microbatches};
    struct remat_arena arena, devices;
    struct remat_graph *graph;
    struct remat_program *program;
    const void *plan;
    size_t bytes;
    remat_arena_init(&arena, ctx);
    remat_arena_init(&devices, ctx);
    REMAT_TRY(remat_device_description_read(ctx, &devices, "h100-sxm", 0, &settings.device));
    REMAT_TRY(generate(ctx, &devices, preset, &graph));
    REMAT_TRY(find_budget(ctx, graph, &settings));
    printf("%s, solver %s, microbatches %" PRIu32 ", arena %" PRIu64 " B at most\n", preset,
           solver == REMAT_SOLVER_MANUAL ? "manual" : "per-op", microbatches,
           settings.search.budget_bytes);
    settings.pass_time = print_stage;
    double begin = cpu_ms();
    REMAT_TRY(generate(ctx, &arena, preset, &graph));
    REMAT_TRY(remat_compile(ctx, &arena, graph, &settings, &program));
    double compiled = cpu_ms();
    REMAT_TRY(remat_program_write(ctx, program, &arena, &plan, &bytes));
    printf("    %-18s %9.2f ms, %zu bytes\n    %-18s %9.2f ms, \"%s\"\n", "write",
           cpu_ms() - compiled, bytes, "total", cpu_ms() - begin, program->policy);
fail:
    remat_arena_release(&arena);
    remat_arena_release(&devices);
    return st;
}

static remat_status measure_preset(remat_context *ctx, const char *preset)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(measure(ctx, preset, REMAT_SOLVER_MANUAL, 1));
    REMAT_TRY(measure(ctx, preset, REMAT_SOLVER_MANUAL, 8));
    REMAT_TRY(measure(ctx, preset, REMAT_SOLVER_PER_OP, 1));
fail:
    return st;
}

int main(int argc, char **argv)
{
    static char *large[] = {NULL, "gpt3-175b", "llama3-70b"};
    remat_context *ctx = remat_context_create(NULL, NULL);
    char **presets = argc > 1 ? argv : large;
    int count = argc > 1 ? argc : 3;
    remat_status st = ctx ? REMAT_OK : REMAT_ERROR_MEMORY;
    for (int i = 1; i < count && st == REMAT_OK; i++)
        st = measure_preset(ctx, presets[i]);
    if (st != REMAT_OK)
        fprintf(stderr, "bench_compile: %s\n", ctx ? remat_context_message(ctx) : "out of memory");
    remat_context_destroy(&ctx);
    return (int)st;
}
