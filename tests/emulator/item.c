#include "item.h"

#include <stdio.h>
#include <stdlib.h>

/* The sample of the item as the only command of its program, and the kernels. */
static void emit(remat_context *ctx, struct remat_arena *arena,
                 const struct remat_cuda_settings *settings, struct item *item)
{
    struct sample *s = &item->sample;
    item->kernel = (struct remat_kernel){REMAT_KERNEL_program, s->kernel, item->key};
    item->command = (struct remat_command){
        .operand_end = s->operand_count, .rank = (uint8_t)s->rank, .name = item->key};
    memcpy(item->command.space, s->space, sizeof s->space);
    for (uint32_t i = 0; i < s->instruction_count; i++) {
        uint16_t opcode = s->instructions[i].opcode;
        struct remat_operand *operand = &s->operands[s->instructions[i].operand];
        if (opcode == REMAT_INSTRUCTION_store)
            operand->access |= REMAT_ACCESS_WRITE;
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
    if (remat_cuda_emit(ctx, arena, &s->program, settings, &item->code)) {
        fprintf(stderr, "FAILED %s: %s\n", item->key, remat_context_message(ctx));
        exit(1);
    }
}

void item_make(remat_context *ctx, struct remat_arena *arena, uint64_t number, struct item *item)
{
    /* Every layout, whatever is best for so few rows. */
    const struct remat_cuda_settings settings = {number % 3 ? 1 : 65536, number % 2 ? 96 : 0};
    item->any_bits = false;
    sample_make(&item->sample, number);
    snprintf(item->key, sizeof item->key, "sample%llu", (unsigned long long)number);
    emit(ctx, arena, &settings, item);
}

void item_make_functions(remat_context *ctx, struct remat_arena *arena, struct item *item)
{
    const uint32_t columns = 1 << 16;
    struct sample *s = &item->sample;
    *item = (struct item){.key = "functions", .any_bits = true};
    s->rank = 1;
    s->rows = 1;
    s->columns = s->space[0] = columns;
    for (uint16_t opcode = 0; opcode < REMAT_INSTRUCTION_COUNT; opcode++) {
        bool function = remat_opcode_arity(opcode) == 1 && opcode != REMAT_INSTRUCTION_store &&
                        !remat_opcode_is_row_reduction(opcode) &&
                        !remat_opcode_is_column_reduction(opcode);
        if (!function && opcode != REMAT_INSTRUCTION_load)
            continue;
        uint32_t o = s->operand_count++;
        s->operands[o] = (struct remat_operand){
            .value = o, .dtype = REMAT_F32, .rank = 1, .shape = {columns}, .strides = {1}};
        s->values[o].buffer = o;
        s->buffers[o].offset_bytes = s->arena_bytes;
        s->buffers[o].bytes = columns * sizeof(float);
        s->arena_bytes += s->buffers[o].bytes;
        uint16_t argument = function ? 0 : REMAT_NO_REGISTER;
        s->instructions[s->instruction_count++] = (struct remat_instruction){
            .opcode = opcode, .args = {argument, REMAT_NO_REGISTER, REMAT_NO_REGISTER}};
        if (function) {
            uint16_t last = (uint16_t)(s->instruction_count - 1);
            s->instructions[s->instruction_count++] =
                (struct remat_instruction){.opcode = REMAT_INSTRUCTION_store,
                                           .operand = (uint16_t)o,
                                           .args = {last, REMAT_NO_REGISTER, REMAT_NO_REGISTER}};
        }
    }
    s->kernel =
        (struct remat_kernel_program){s->instruction_count, s->instructions, s->operand_count};
    emit(ctx, arena, &REMAT_CUDA_DEFAULTS, item);
}

/* Every exponent, and among the mantissas all that are nearly zero or nearly full. */
static void fill_any_bits(const struct sample *s, char *memory)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        uint32_t bits = (uint32_t)remat_hash(&i, sizeof i, 1);
        if (i % 4 == 0)
            bits = (bits & 0xff800000u) + i % 64 / 4 - 8;
        memcpy(memory + i * sizeof bits, &bits, sizeof bits);
    }
}

void item_append_text(const struct item *item, struct remat_text *text)
{
    for (uint32_t k = 0; k < item->code.kernel_count; k++)
        remat_text_append(text, "%s", item->code.kernels[k].text);
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
    remat_kernel_program_check(ctx, &s->kernel, "sample", classes);
    memset(initial, 0xff, bytes);
    sample_fill(s, initial);
    if (item->any_bits)
        fill_any_bits(s, initial);
    memcpy(expected, initial, bytes);
    sample_run(s, classes, expected);
    for (uint64_t order = 0; order < orders && !fault; order++) {
        memcpy(memory, initial, bytes);
        fault = kernels_run(emulator, &s->program, &item->code, kernels, 0, 0, memory,
                            memory + s->arena_bytes, order * 77);
        if (!fault && !sample_equal(s, memory, expected))
            fault = "differs";
    }
    static char message[256];
    snprintf(message, sizeof message, "%s", fault ? fault : "");
    emulator_destroy(&emulator);
    free(initial);
    free(expected);
    free(memory);
    return fault ? message : NULL;
}
