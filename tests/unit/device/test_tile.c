/* SPDX-License-Identifier: Apache-2.0 */
/* Random fused kernels over ragged spaces: the tile interpreter against kernel.h read literally,
 * bit for bit, for every instruction set and 1 to 3 threads. */
#include "check.h"
#include "cpu_tile.h"
#include "sample.h"

#include <stdlib.h>

#define REPEATS 3

static void run_sample(remat_context *ctx, const struct sample *s, struct cpu_pool **pools)
{
    enum remat_register_class classes[SAMPLE_INSTRUCTIONS_MAX];
    CHECK_OK(ctx, remat_kernel_body_check(ctx, &s->kernel, "sample", classes));
    char *initial = aligned_alloc(256, s->arena_bytes),
         *expected = aligned_alloc(256, s->arena_bytes);
    char *memory = aligned_alloc(256, s->arena_bytes);
    sample_fill(s, initial);
    memcpy(expected, initial, s->arena_bytes);
    sample_run(s, classes, expected);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int threads = 1; threads <= REPEATS && cpu_functions_get((enum cpu_isa)isa);
             threads++) {
            struct remat_arena arena;
            remat_arena_init(&arena, ctx);
            struct cpu_tile_options options = {.isa = (enum cpu_isa)isa,
                                               .threads = (uint32_t)threads,
                                               .stream_bytes = threads == 2 ? 1 : 0,
                                               .column_sums = s->column_sums};
            struct cpu_tile_source source = {"sample", &s->kernel, s->operands, s->operand_count,
                                             s->rank,  s->space,   false};
            struct cpu_tile *tile;
            CHECK_OK(ctx, cpu_tile_prepare(ctx, &s->program, &source, &options, &arena, &tile));
            uint64_t stride = remat_align_up(cpu_tile_scratch_bytes(tile), 256);
            char *scratch = aligned_alloc(256, stride * (uint64_t)threads);
            memset(scratch, 0xff, stride * (uint64_t)threads);
            memcpy(memory, initial, s->arena_bytes);
            cpu_tile_run(tile, pools[threads - 1], memory, scratch, stride);
            if (!CHECK(sample_equal(s, memory, expected), "%s, %d threads",
                       cpu_functions_get((enum cpu_isa)isa)->name, threads))
                sample_print(s);
            free(scratch);
            remat_arena_release(&arena);
        }
    free(initial);
    free(expected);
    free(memory);
}

/* One element of a tile or of its part, wherever it is, for every instruction set. */
static void test_flag(void)
{
    static const uint32_t words[] = {0x7f7fffff, 0xff7fffff, 0x80000001, 0x3f800000, /* finite */
                                     0x7f800000, 0xff800000, 0x7fc00000, 0xff800001};
    static const int64_t counts[] = {1, 3, 16, 17, 127, CPU_TILE};
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        const struct cpu_tile_table *table = cpu_tile_table_get((enum cpu_isa)isa);
        if (!cpu_functions_get((enum cpu_isa)isa))
            continue;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int64_t at = 0; at <= counts[c]; at++)
                for (int w = 0; w < 8; w++) {
                    float values[CPU_TILE + 1] = {0}, flag;
                    int32_t found = -7;
                    memcpy(&values[at], &words[w], sizeof words[w]);
                    memcpy(&flag, &found, sizeof flag);
                    table->ops[REMAT_INSTRUCTION_flag](&flag, values, NULL, NULL, counts[c]);
                    memcpy(&found, &flag, sizeof found);
                    CHECK(found == (w >= 4 && at < counts[c] ? 1 : -7),
                          "%d: word %d at %lld of %lld", found, w, (long long)at,
                          (long long)counts[c]);
                }
    }
}

/* Sums over a single row, stored over the row, to which they are added afterwards. */
static void test_in_place(remat_context *ctx, struct cpu_pool **pools)
{
    enum { COLUMNS = 1000, NONE = REMAT_NO_REGISTER };
    static struct sample s = {
        .rank = 2,
        .operand_count = 2,
        .instruction_count = 7,
        .space = {1, COLUMNS},
        .rows = 1,
        .columns = COLUMNS,
        .instructions = {{REMAT_INSTRUCTION_load, 0, {NONE, NONE, NONE}, 0, 0},
                         {REMAT_INSTRUCTION_constant, 0, {NONE, NONE, NONE}, 0, 0.5f},
                         {REMAT_INSTRUCTION_mul, 0, {0, 1, NONE}, 0, 0},
                         {REMAT_INSTRUCTION_column_sum, 0, {2, NONE, NONE}, 0, 0},
                         {REMAT_INSTRUCTION_store, 0, {3, NONE, NONE}, 0, 0},
                         {REMAT_INSTRUCTION_add, 0, {0, 3, NONE}, 0, 0},
                         {REMAT_INSTRUCTION_store, 1, {5, NONE, NONE}, 0, 0}},
        .arena_bytes = (uint64_t)2 * 4096,
        .column_sums = REMAT_COLUMN_SUMS,
    };
    for (uint32_t o = 0; o < s.operand_count; o++) {
        s.operands[o] = (struct remat_operand){.value = o,
                                               .dtype = REMAT_F32,
                                               .rank = 2,
                                               .shape = {1, COLUMNS},
                                               .strides = {COLUMNS, 1}};
        s.values[o] = (struct remat_program_value){.buffer = o};
        s.buffers[o] = (struct remat_buffer){.offset_bytes = (uint64_t)o * 4096,
                                             .bytes = (uint64_t)4 * COLUMNS};
    }
    s.kernel = (struct remat_kernel_body){s.instruction_count, s.instructions, s.operand_count};
    s.program = (struct remat_program){.buffers = s.buffers, .values = s.values};
    run_sample(ctx, &s, pools);
}

int main(int argc, char **argv)
{
    int samples = argc > 1 ? atoi(argv[1]) : 2500;
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct cpu_pool *pools[REPEATS];
    for (int t = 0; t < REPEATS; t++)
        CHECK_OK(ctx, cpu_pool_create(ctx, t + 1, &pools[t]));
    uint32_t state = cpu_flush_subnormals();
    test_flag();
    test_in_place(ctx, pools);
    for (int i = 0; i < samples && checks_failed() < 3; i++) {
        static struct sample sample;
        sample_make(&sample, (uint64_t)i);
        run_sample(ctx, &sample, pools);
    }
    cpu_restore_float_state(state);
    for (int t = 0; t < REPEATS; t++)
        cpu_pool_destroy(&pools[t]);
    remat_context_destroy(&ctx);
    printf("%d samples\n", samples);
    return check_exit();
}
