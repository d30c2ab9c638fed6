/* SPDX-License-Identifier: Apache-2.0 */
#include "item.h"

#include "check.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

/* The sample of the item as the only command of its program, and the kernels. */
static void emit(remat_context *ctx, struct remat_arena *arena,
                 const struct remat_cuda_settings *settings, struct item *item)
{
    struct sample *s = &item->sample;
    item->kernel = (struct remat_kernel){REMAT_KERNEL_fused, s->kernel, item->key};
    item->command = (struct remat_command){
        .operand_end = s->operand_count, .rank = (uint8_t)s->rank, .name = item->key};
    memcpy(item->command.space, s->space, sizeof s->space);
    for (uint32_t i = 0; i < s->instruction_count; i++) {
        uint16_t opcode = s->instructions[i].opcode;
        struct remat_operand *operand = &s->operands[s->instructions[i].operand];
        if (opcode == REMAT_INSTRUCTION_store)
            operand->access |= REMAT_ACCESS_WRITE;
        else if (opcode == REMAT_INSTRUCTION_flag)
            operand->access = REMAT_ACCESS_FLAG;
        else if (opcode == REMAT_INSTRUCTION_load || opcode == REMAT_INSTRUCTION_load_row ||
                 opcode == REMAT_INSTRUCTION_random)
            operand->access |= REMAT_ACCESS_READ;
    }
    s->program = (struct remat_program){.buffers = s->buffers,
                                        .values = s->values,
                                        .kernels = &item->kernel,
                                        .kernel_count = 1,
                                        .commands = &item->command,
                                        .command_count = 1,
                                        .operands = s->operands,
                                        .operand_count = s->operand_count,
                                        .arena_bytes = s->arena_bytes};
    MUST_OK(ctx, remat_cuda_emit(ctx, arena, &s->program, settings, &item->code), "%s", item->key);
}

void item_make(remat_context *ctx, struct remat_arena *arena, uint64_t number, struct item *item)
{
    /* Every layout, whatever is best for so few rows. */
    item->any_bits = false;
    sample_make(&item->sample, number);
    const struct remat_cuda_settings settings = {number % 3 ? 1 : 65536, number % 2 ? 96 : 0, 0,
                                                 item->sample.column_sums};
    for (uint32_t o = 0; o < item->sample.operand_count && number % 4 == 3; o++)
        if (item->sample.operands[o].dtype == REMAT_BF16)
            item->sample.operands[o].dtype = REMAT_F16;
    snprintf(item->key, sizeof item->key, "sample%llu", (unsigned long long)number);
    emit(ctx, arena, &settings, item);
}

static uint16_t add(struct sample *s, uint16_t opcode, uint32_t operand, uint16_t argument)
{
    s->instructions[s->instruction_count] =
        (struct remat_instruction){.opcode = opcode,
                                   .operand = (uint16_t)operand,
                                   .args = {argument, REMAT_NO_REGISTER, REMAT_NO_REGISTER}};
    return (uint16_t)s->instruction_count++;
}

/* Of the whole space. */
static uint32_t add_operand(struct sample *s, remat_dtype dtype)
{
    uint32_t o = s->operand_count++;
    struct remat_operand *operand = &s->operands[o];
    *operand =
        (struct remat_operand){.value = o, .dtype = (uint8_t)dtype, .rank = (uint8_t)s->rank};
    int64_t stride = 1;
    for (uint32_t k = s->rank; k-- > 0; stride *= s->space[k])
        operand->shape[k] = s->space[k], operand->strides[k] = stride;
    s->values[o].buffer = o;
    s->buffers[o].offset_bytes = s->arena_bytes;
    s->buffers[o].bytes = (uint64_t)stride * remat_dtype_bytes(dtype);
    s->arena_bytes += remat_align_up(s->buffers[o].bytes, REMAT_ALIGNMENT);
    return o;
}

void item_make_functions(remat_context *ctx, struct remat_arena *arena, struct item *item)
{
    struct sample *s = &item->sample;
    *item = (struct item){.key = "functions", .any_bits = true};
    s->rank = 1;
    s->rows = 1;
    s->columns = s->space[0] = 1 << 16;
    uint32_t in = add_operand(s, REMAT_F32), halves = add_operand(s, REMAT_F16);
    uint16_t x = add(s, REMAT_INSTRUCTION_load, in, REMAT_NO_REGISTER);
    uint16_t widened = add(s, REMAT_INSTRUCTION_load, halves, REMAT_NO_REGISTER);
    add(s, REMAT_INSTRUCTION_store, add_operand(s, REMAT_F32), widened);
    add(s, REMAT_INSTRUCTION_store, add_operand(s, REMAT_F16), x);
    add(s, REMAT_INSTRUCTION_store, add_operand(s, REMAT_BF16), x);
    for (uint16_t opcode = 0; opcode < REMAT_INSTRUCTION_COUNT; opcode++)
        if (remat_opcode_arity(opcode) == 1 && remat_opcode_has_result(opcode) &&
            !remat_opcode_is_row_reduction(opcode) && !remat_opcode_is_column_reduction(opcode)) {
            uint16_t value = add(s, opcode, 0, x);
            add(s, REMAT_INSTRUCTION_store, add_operand(s, REMAT_F32), value);
        }
    s->kernel = (struct remat_kernel_body){s->instruction_count, s->instructions, s->operand_count};
    emit(ctx, arena, &REMAT_CUDA_DEFAULTS, item);
}

void item_make_sums(remat_context *ctx, struct remat_arena *arena, uint32_t sums, struct item *item)
{
    struct sample *s = &item->sample;
    uint16_t values[SAMPLE_INSTRUCTIONS_MAX];
    *item = (struct item){.sample = {.rank = 2,
                                     .rows = 300,
                                     .columns = 136,
                                     .space = {300, 136},
                                     .column_sums = REMAT_COLUMN_SUMS}};
    snprintf(item->key, sizeof item->key, "sums%u", sums);
    for (uint32_t k = 0; k < 2; k++)
        values[k] = add(s, REMAT_INSTRUCTION_load, add_operand(s, REMAT_BF16), REMAT_NO_REGISTER);
    for (uint32_t k = 2; k < sums; k++) {
        values[k] = add(s, k % 3 ? REMAT_INSTRUCTION_sub : REMAT_INSTRUCTION_add, 0, values[k - 1]);
        s->instructions[values[k]].args[1] = values[k - 2];
    }
    for (uint32_t k = 0; k < sums; k++)
        values[k] = add(s, REMAT_INSTRUCTION_column_sum, 0, values[k]);
    for (uint32_t k = 0; k < sums; k++)
        add(s, REMAT_INSTRUCTION_store, add_operand(s, k % 2 ? REMAT_F32 : REMAT_BF16), values[k]);
    s->kernel = (struct remat_kernel_body){s->instruction_count, s->instructions, s->operand_count};
    emit(ctx, arena, &REMAT_CUDA_DEFAULTS, item);
}

/* Every exponent, and among the mantissas all that are nearly zero or nearly full; what is halfway
 * between two f16 that are subnormal, and where f16 ends; every f16. */
static void fill_any_bits(const struct sample *s, char *memory)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        uint32_t bits = (uint32_t)remat_hash(&i, sizeof i, 1);
        uint16_t half = (uint16_t)i;
        if (i % 4 == 0)
            bits = (bits & 0xff800000u) + i % 64 / 4 - 8;
        float value = i % 8 == 1 ? (float)(i / 8) * 0x1p-25f : 65504.0f + (float)(i / 8 % 64) / 2;
        if (i % 4 == 1)
            memcpy(&bits, &value, sizeof bits);
        memcpy(memory + i * sizeof bits, &bits, sizeof bits);
        memcpy(memory + s->buffers[1].offset_bytes + i * sizeof half, &half, sizeof half);
    }
}

static void fill(const struct item *item, char *memory, uint64_t bytes)
{
    memset(memory, 0xff, bytes);
    sample_fill(&item->sample, memory);
    if (item->any_bits)
        fill_any_bits(&item->sample, memory);
}

void item_append_text(const struct item *item, struct remat_text *text)
{
    char *kernels = kernels_text(&item->code);
    remat_text_append(text, "%s", kernels);
    free(kernels);
}

const char *item_run(remat_context *ctx, const struct item *item, void *library, uint64_t orders)
{
    const struct sample *s = &item->sample;
    enum remat_register_class classes[SAMPLE_INSTRUCTIONS_MAX];
    emulator_kernel *kernels[16];
    uint64_t bytes = s->arena_bytes + item->code.workspace_bytes;
    char *initial = aligned_alloc(256, bytes), *expected = aligned_alloc(256, bytes);
    char *memory = aligned_alloc(256, bytes);
    struct emulator *emulator = emulator_create(memory, bytes);
    for (uint32_t k = 0; k < item->code.kernel_count; k++)
        kernels[k] = kernels_find(library, item->code.kernels[k].symbol);
    const char *fault = NULL;
    MUST_OK(ctx, remat_kernel_body_check(ctx, &s->kernel, "sample", classes));
    fill(item, initial, bytes);
    memcpy(expected, initial, bytes);
    sample_run(s, classes, expected);
    for (uint64_t order = 0; order < orders && !fault; order++) {
        memcpy(memory, initial, bytes);
        fault =
            kernels_run(&(struct kernels_place){emulator, &s->program, &item->code, kernels, 0,
                                                memory, memory + s->arena_bytes, order * 77, NULL},
                        0);
        if (!fault && !sample_equal(s, memory, expected)) {
            fault = "differs";
            sample_print_differences(s, memory, expected);
        }
    }
    static char message[256];
    snprintf(message, sizeof message, "%s", fault ? fault : "");
    emulator_destroy(&emulator);
    free(initial);
    free(expected);
    free(memory);
    return fault ? message : NULL;
}

static bool has_f16(const struct sample *s)
{
    for (uint32_t o = 0; o < s->operand_count; o++)
        if (s->operands[o].dtype == REMAT_F16)
            return true;
    return false;
}

static void run_on_cpu(remat_context *ctx, const struct item *item, char *memory)
{
    struct remat_device *cpu;
    const struct remat_device_params params = {.threads = 1};
    MUST_OK(ctx, remat_cpu_device.create(ctx, &item->sample.program, &params, &cpu));
    MUST_OK(ctx, remat_cpu_device.bind(cpu, NULL));
    memcpy(cpu->memory, memory, item->sample.arena_bytes);
    MUST_OK(ctx, remat_cpu_device.begin(cpu));
    MUST_OK(ctx, remat_cpu_device.execute(cpu, 0), "%s", item->key);
    MUST_OK(ctx, remat_cpu_device.end(cpu));
    memcpy(memory, cpu->memory, item->sample.arena_bytes);
    remat_cpu_device.destroy(&cpu);
}

const char *item_check(remat_context *ctx, const struct item *item, struct bounds64 *bounds)
{
    const struct sample *s = &item->sample;
    enum remat_register_class classes[SAMPLE_INSTRUCTIONS_MAX];
    uint64_t bytes = remat_align_up(s->arena_bytes, REMAT_ALIGNMENT), outside = bounds->outside;
    uint64_t rows = (uint64_t)s->rows, columns = (uint64_t)s->columns;
    bool device = !has_f16(s) && remat_column_block_rows(rows, columns, s->column_sums) ==
                                     remat_column_block_rows(rows, columns, REMAT_COLUMN_SUMS);
    char *initial = aligned_alloc(REMAT_ALIGNMENT, bytes);
    char *expected = aligned_alloc(REMAT_ALIGNMENT, bytes);
    char *memory = aligned_alloc(REMAT_ALIGNMENT, bytes);
    const char *fault = NULL;
    MUST_OK(ctx, remat_kernel_body_check(ctx, &s->kernel, "sample", classes));
    fill(item, initial, bytes);
    memcpy(expected, initial, bytes);
    memcpy(memory, initial, bytes);
    sample_run(s, classes, expected);
    if (device)
        run_on_cpu(ctx, item, memory);
    if (device && !sample_equal(s, memory, expected))
        fault = "the CPU device differs";
    bounds->column_sums = s->column_sums;
    bounds64_count(&s->program, 0, initial, expected, bounds);
    if (bounds->outside > outside)
        fault = "float64 differs by more than rounding";
    free(initial);
    free(expected);
    free(memory);
    return fault;
}
