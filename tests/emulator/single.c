/* SPDX-License-Identifier: Apache-2.0 */
#include "single.h"

#include "check.h"
#include "cpu_pool.h"
#include "device.h"
#include "half.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state = 1;
static const struct single_mutant *planted;
static bool found; /* the fault that is planted */

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

void single_add(struct single *s, uint8_t access, remat_dtype dtype, uint32_t rank,
                const int64_t *shape, bool transposed)
{
    uint32_t o = s->command.operand_end++, first = transposed ? rank - 2 : rank;
    struct remat_operand *operand = &s->operands[o];
    int64_t stride = 1;
    *operand = (struct remat_operand){.value = o,
                                      .previous = REMAT_NONE,
                                      .access = access,
                                      .dtype = (uint8_t)dtype,
                                      .rank = (uint8_t)rank};
    for (uint32_t k = rank; k-- > 0; stride *= shape[k])
        operand->shape[k] = shape[k], operand->strides[k] = stride;
    if (first < rank) {
        operand->strides[rank - 2] = 1;
        operand->strides[rank - 1] = shape[rank - 2];
    }
    s->values[o] = (struct remat_program_value){.buffer = o, .dtype = (uint8_t)dtype};
    s->buffers[o] = (struct remat_buffer){
        .offset_bytes = s->program.arena_bytes,
        .bytes = remat_align_up((uint64_t)stride * remat_dtype_bytes(dtype) + 64, REMAT_ALIGNMENT)};
    s->program.arena_bytes += s->buffers[o].bytes;
}

struct single *single_begin(uint32_t kind)
{
    static struct single s;
    s = (struct single){.kernel = {.kind = kind, .key = remat_kernel_kind_name(kind)},
                        .command =
                            {
                                .name = remat_kernel_kind_name(kind),
                            },
                        .ids_below = 1};
    uint32_t least, most;
    remat_kernel_kind_arity(kind, &least, &most, &s.command.parameter_end);
    return &s;
}

static void fill(const struct single *s, char *memory)
{
    memset(memory, 0xcd, s->program.arena_bytes);
    for (uint32_t o = 0; o < s->command.operand_end; o++)
        for (uint64_t i = 0; i < s->buffers[o].bytes; i += 4) {
            uint32_t word =
                s->id_of ? s->id_of((uint32_t)(i / 4)) : s->ids_begin + random_below(s->ids_below);
            float value = (float)random_below(2000) * 1e-3f - 1.0f;
            if (s->operands[o].dtype != REMAT_I32)
                memcpy(&word, &value, 4);
            if (s->operands[o].dtype == REMAT_BF16)
                word = (word & 0xffff0000u) | word >> 16;
            if (s->operands[o].dtype == REMAT_F16)
                word = half_narrow(value) * 0x10001u;
            memcpy(memory + s->buffers[o].offset_bytes + i, &word, 4);
        }
}

static void set_all_bits(const struct single *s, char *memory)
{
    const struct remat_operand *last = &s->operands[s->command.operand_end - 1];
    while (last->access != REMAT_ACCESS_WRITE)
        last--;
    uint64_t bytes = remat_dtype_bytes((remat_dtype)last->dtype),
             begin = last->offset_elements * bytes;
    for (uint32_t k = 0; k < last->rank; k++)
        bytes *= (uint64_t)last->shape[k];
    memset(memory + s->buffers[last->value].offset_bytes + begin, 0xff, bytes);
}

/* With f32 for f16, which the CPU device does not have. */
static struct single widened(const struct single *s)
{
    struct single twin = *s;
    twin.program.arena_bytes = 0;
    for (uint32_t o = 0; o < s->command.operand_end; o++) {
        bool half = s->operands[o].dtype == REMAT_F16;
        twin.operands[o].dtype = half ? REMAT_F32 : s->operands[o].dtype;
        twin.buffers[o].bytes = s->buffers[o].bytes * (half ? 2 : 1);
        twin.buffers[o].offset_bytes = twin.program.arena_bytes;
        twin.program.arena_bytes += twin.buffers[o].bytes;
    }
    return twin;
}

/* The memory of `s` to its twin's, or back. */
static void convert(const struct single *s, const struct single *twin, char *memory,
                    char *twin_memory, bool back)
{
    for (uint32_t o = 0; o < s->command.operand_end; o++) {
        char *at = memory + s->buffers[o].offset_bytes;
        char *twin_at = twin_memory + twin->buffers[o].offset_bytes;
        if (s->operands[o].dtype != REMAT_F16)
            memcpy(back ? at : twin_at, back ? twin_at : at, s->buffers[o].bytes);
        for (uint64_t i = 0; s->operands[o].dtype == REMAT_F16 && i < s->buffers[o].bytes / 2; i++)
            if (back)
                ((uint16_t *)at)[i] = half_narrow(((float *)twin_at)[i]);
            else
                ((float *)twin_at)[i] = half_widen(((uint16_t *)at)[i]);
    }
}

static void complete(struct single *s)
{
    s->program.kernels = &s->kernel, s->program.kernel_count = 1;
    s->program.commands = &s->command, s->program.command_count = 1;
    s->program.operands = s->operands, s->program.operand_count = s->command.operand_end;
    s->program.values = s->values, s->program.buffers = s->buffers;
    s->program.parameters = s->parameters;
}

/* --- ids outside the table --- */

struct embedding { /* one operand's bytes each */
    const struct remat_operand *table, *rows;
    uint64_t ids, row_0, row_bytes;
};

static uint64_t place_of(const struct single *s, uint32_t o)
{
    const struct remat_operand *operand = &s->operands[o];
    return s->buffers[o].offset_bytes +
           operand->offset_elements * remat_dtype_bytes((remat_dtype)operand->dtype);
}

static bool is_embedding(const struct single *s, struct embedding *out)
{
    bool gather = s->kernel.kind == REMAT_KERNEL_embedding;
    uint32_t rows = gather ? 2 : 0;
    if (!gather && s->kernel.kind != REMAT_KERNEL_embedding_backward)
        return false;
    out->table = &s->operands[2 - rows];
    out->rows = &s->operands[rows];
    out->ids = place_of(s, 1);
    out->row_0 = place_of(s, rows);
    out->row_bytes =
        (uint64_t)out->rows->shape[1] * remat_dtype_bytes((remat_dtype)out->rows->dtype);
    return true;
}

/* Id 0 for those outside; where rows are added, of zeros. */
static void hide_outside(const struct single *s, char *memory)
{
    struct embedding e;
    for (int64_t t = 0; is_embedding(s, &e) && t < e.rows->shape[0]; t++) {
        char *id = memory + e.ids + t * 4;
        if (*(uint32_t *)id < e.table->shape[0])
            continue;
        memset(id, 0, 4);
        if (e.rows == &s->operands[0])
            memset(memory + e.row_0 + (uint64_t)t * e.row_bytes, 0, e.row_bytes);
    }
}

/* What was read is as it was; NaN in rows of ids outside. */
static void show_outside(const struct single *s, const char *initial, char *memory)
{
    struct embedding e;
    bool gather = s->kernel.kind == REMAT_KERNEL_embedding;
    if (!is_embedding(s, &e))
        return;
    for (uint32_t o = 0; o < 2; o++)
        memcpy(memory + s->buffers[o].offset_bytes, initial + s->buffers[o].offset_bytes,
               s->buffers[o].bytes);
    for (int64_t t = 0; gather && t < e.rows->shape[0]; t++) {
        uint32_t nan = 0x7fc00000, bytes = remat_dtype_bytes((remat_dtype)e.rows->dtype);
        char *row = memory + e.row_0 + (uint64_t)t * e.row_bytes;
        if (*(const uint32_t *)(initial + e.ids + t * 4) >= e.table->shape[0])
            for (uint64_t i = 0; i < e.row_bytes; i += bytes)
                memcpy(row + i, (char *)&nan + 4 - bytes, bytes);
    }
}

/* --- */

/* What the CPU device makes of the memory. */
static void run_on_cpu(remat_context *ctx, struct single *s, char *memory)
{
    struct single twin = widened(s);
    struct remat_device *cpu;
    const struct remat_device_params params = {.threads = 1, .seed = SINGLE_SEED};
    complete(&twin);
    MUST_OK(ctx, remat_cpu_device.create(ctx, &twin.program, &params, &cpu));
    MUST_OK(ctx, remat_cpu_device.bind(cpu, NULL));
    convert(s, &twin, memory, cpu->memory, false);
    MUST_OK(ctx, remat_cpu_device.begin(cpu));
    MUST((remat_cpu_device.execute(cpu, 0) != REMAT_OK) == s->fails, "%s", s->kernel.key);
    MUST_OK(ctx, remat_cpu_device.end(cpu));
    convert(s, &twin, memory, cpu->memory, true);
    if (s->fails)
        set_all_bits(s, memory);
    remat_cpu_device.destroy(&cpu);
}

/* NULL, or how what the kernels do differs. */
static const char *run_emulated(struct single *s, void *library, const char *initial,
                                const char *expected)
{
    emulator_kernel *kernels[SINGLE_OPERANDS_MAX];
    uint64_t bytes = s->program.arena_bytes, all = bytes + s->code.workspace_bytes;
    char *memory = aligned_alloc(REMAT_ALIGNMENT, all);
    struct emulator *emulator = emulator_create(memory, all);
    const char *fault = NULL;
    for (uint32_t k = 0; k < s->code.kernel_count; k++)
        kernels[k] = kernels_find(library, s->code.kernels[k].symbol);
    uint32_t state = cpu_flush_subnormals();
    for (uint64_t order = 0; order < 3 && !fault; order++) {
        memcpy(memory, initial, bytes);
        memset(memory + bytes, 0xff, s->code.workspace_bytes);
        fault = kernels_run(&(struct kernels_place){emulator, &s->program, &s->code, kernels,
                                                    SINGLE_SEED, memory, memory + bytes, order * 5,
                                                    &s->read_bytes},
                            0);
        if (!fault && (s->code.launch_count == 0 || memcmp(memory, expected, bytes) != 0))
            fault = "differs";
    }
    cpu_restore_float_state(state);
    if (fault)
        printf("%s of %lld x %lld, dtype %s: %s\n", s->kernel.key,
               (long long)s->operands[0].shape[0], (long long)s->operands[0].shape[1],
               remat_dtype_name((remat_dtype)s->operands[0].dtype), fault);
    emulator_destroy(&emulator);
    free(memory);
    return fault;
}

static bool run_text(remat_context *ctx, const char *compiler, struct single *s, const char *text)
{
    uint64_t bytes = s->program.arena_bytes;
    char *initial = malloc(bytes), *expected = malloc(bytes);
    fill(s, initial);
    memcpy(expected, initial, bytes);
    hide_outside(s, expected);
    run_on_cpu(ctx, s, expected);
    show_outside(s, initial, expected);
    void *library = kernels_compile(compiler, text);
    bool equal = !run_emulated(s, library, initial, expected);
    kernels_close(library);
    free(initial);
    free(expected);
    return equal;
}

void single_plant(const struct single_mutant *mutant)
{
    planted = mutant;
    found = false;
}

/* The text with the fault; NULL where it is to be found elsewhere. */
static char *plant(const struct single *s, const char *text)
{
    const char *end;
    if (found || s->kernel.kind != planted->kind || !kernels_has(text, planted->find, &end))
        return NULL;
    return kernels_replace(text, planted->find, planted->replacement);
}

bool single_run(remat_context *ctx, const char *compiler, struct single *s)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    complete(s);
    MUST_OK(ctx, remat_cuda_emit(ctx, &arena, &s->program, &REMAT_CUDA_DEFAULTS, &s->code));
    char *text = kernels_text(&s->code), *mutated = planted ? plant(s, text) : NULL;
    bool equal = planted && !mutated ? true : run_text(ctx, compiler, s, mutated ? mutated : text);
    found |= !equal;
    free(text);
    free(mutated);
    remat_arena_release(&arena);
    return equal;
}
