/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include "check.h"
#include "cpu_pool.h"
#include "device.h"
#include "reference64.h"

#include <stdio.h>
#include <stdlib.h>

#define TOLERANCE64  2e-6
#define COEFFICIENTS 3
#define OPERANDS_MAX 12
#define FLAG_OFFSET  2 /* elements */
#define NONE         REMAT_NO_REGISTER
#define TAKE(what, o)                                                                              \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_##what, .operand = o, .args = { NONE, NONE, NONE }             \
    }
#define NUMBER(x)                                                                                  \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_constant, .args = {NONE, NONE, NONE}, .immediate = x           \
    }
#define BOTH(what, a, b)                                                                           \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_##what, .args = { a, b, NONE }                                 \
    }
#define ONE(what, a)                                                                               \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_##what, .args = { a, NONE, NONE }                              \
    }
#define INTO(what, o, a)                                                                           \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_##what, .operand = o, .args = { a, NONE, NONE }                \
    }
#define PUT(o, a)  INTO(store, o, a)
#define FLAG(o, a) INTO(flag, o, a)

/* As the compiler makes it of AdamW: operands gradient, m, v, root, rate, parameter, decay, the
 * flag, then what the parameter, m and v become, and with a master the parameter in bf16. */
static const struct remat_instruction adamw[] = {
    TAKE(load, 0),     TAKE(load, 1),     BOTH(sub, 0, 1),   NUMBER(0.1f),      BOTH(mul, 2, 3),
    BOTH(add, 1, 4),   NUMBER(0.001f),    BOTH(mul, 0, 6),   BOTH(mul, 7, 0),   TAKE(load, 2),
    NUMBER(0.999f),    BOTH(mul, 9, 10),  BOTH(add, 11, 8),  ONE(sqrt, 12),     TAKE(load_row, 3),
    BOTH(div, 13, 14), TAKE(load_row, 4), BOTH(mul, 5, 16),  NUMBER(1e-8f),     BOTH(add, 15, 18),
    BOTH(div, 17, 19), TAKE(load, 5),     TAKE(load_row, 6), BOTH(mul, 21, 22), BOTH(sub, 23, 20),
    FLAG(7, 0),        PUT(8, 24),        PUT(9, 5),         PUT(10, 12),       ONE(round_bf16, 24),
    PUT(11, 29),
};
/* Gradient, rate, parameter, the flag, and what the parameter becomes. */
static const struct remat_instruction sgd[] = {
    TAKE(load, 0),   TAKE(load_row, 1), BOTH(mul, 0, 1), TAKE(load, 2),
    BOTH(sub, 3, 2), FLAG(3, 0),        PUT(4, 4),
};

struct place { /* of an operand */
    char kind; /* g: gradient, c: coefficient, f: flag, else the state that has this letter */
    bool written;
};
static const struct place adamw_places[] = {{'g', 0}, {'m', 0}, {'v', 0}, {'c', 0},
                                            {'c', 0}, {'p', 0}, {'c', 0}, {'f', 0},
                                            {'p', 1}, {'m', 1}, {'v', 1}, {'b', 1}};
static const struct place sgd_places[] = {{'g', 0}, {'c', 0}, {'p', 0}, {'f', 0}, {'p', 1}};

static const struct form {
    const char *key;
    const struct remat_instruction *instructions;
    uint32_t instruction_count, operand_count;
    const struct place *places;
    remat_dtype gradient;
} forms[] = {
    [TENSORS_ADAMW] = {"adamw", adamw, 29, 11, adamw_places, REMAT_F32},
    [TENSORS_ADAMW_MASTER] = {"adamw.cast.assign", adamw, 31, 12, adamw_places, REMAT_BF16},
    [TENSORS_SGD] = {"sgd", sgd, 7, 5, sgd_places, REMAT_BF16},
};

/* --- the program --- */

struct maker {
    struct remat_program *program;
    const struct form *form;
    uint32_t count; /* of tensors */
};

/* A buffer with one value; `elements` with what lies before them. */
static uint32_t add_buffer(struct maker *m, remat_dtype dtype, uint64_t elements, bool persistent)
{
    struct remat_program *p = m->program;
    uint64_t bytes = remat_align_up(elements * remat_dtype_bytes(dtype), REMAT_ALIGNMENT);
    p->values[p->buffer_count] =
        (struct remat_program_value){.buffer = p->buffer_count, .dtype = (uint8_t)dtype};
    p->buffers[p->buffer_count] = (struct remat_buffer){
        .offset_bytes = p->arena_bytes, .bytes = bytes, .persistent = persistent};
    p->arena_bytes += bytes;
    return p->buffer_count++;
}

/* The flag comes after all tensors. */
static uint32_t value_of(const struct maker *m, const struct place *place, uint32_t tensor)
{
    static const char states[] = "gmvpb";
    if (place->kind == 'c' || place->kind == 'f')
        return place->kind == 'c' ? 0 : 1 + m->count * 5;
    return 1 + tensor * 5 + (uint32_t)(strchr(states, place->kind) - states);
}

static void add_tensor(struct maker *m, uint32_t tensor, int64_t length, uint64_t offset)
{
    struct remat_program *p = m->program;
    struct remat_command *command = &p->commands[p->command_count++];
    const remat_dtype dtypes[] = {m->form->gradient, REMAT_F32, REMAT_F32, REMAT_F32, REMAT_BF16};
    for (uint32_t i = 0; i < 5; i++)
        add_buffer(m, dtypes[i], offset + (uint64_t)length, i > 0);
    *command = (struct remat_command){.operand_begin = p->operand_count,
                                      .operand_end = p->operand_count + m->form->operand_count,
                                      .rank = 1,
                                      .space = {length},
                                      .name = m->form->key};
    uint64_t coefficient = 0;
    for (uint32_t o = 0; o < m->form->operand_count; o++) {
        const struct place *place = &m->form->places[o];
        bool coefficients = place->kind == 'c', flag = place->kind == 'f';
        uint32_t value = value_of(m, place, tensor);
        p->operands[p->operand_count++] =
            (struct remat_operand){.value = value,
                                   .previous = REMAT_NONE,
                                   .access = flag             ? REMAT_ACCESS_FLAG
                                             : place->written ? REMAT_ACCESS_WRITE
                                                              : REMAT_ACCESS_READ,
                                   .dtype = p->values[value].dtype,
                                   .rank = 1,
                                   .shape = {coefficients || flag ? 1 : length},
                                   .strides = {coefficients || flag ? 0 : 1},
                                   .offset_elements = coefficients ? coefficient++
                                                      : flag       ? FLAG_OFFSET
                                                                   : offset};
    }
}

static char *flag_in(const struct tensors *t, char *memory)
{
    return memory + t->program.buffers[t->program.buffer_count - 1].offset_bytes +
           FLAG_OFFSET * sizeof(int32_t);
}

int32_t tensors_flag(const struct tensors *t)
{
    int32_t flag;
    memcpy(&flag, flag_in(t, t->expected), sizeof flag);
    return flag;
}

/* Floats of both signs in [-1, 1), subnormals among the second moments, which are not negative. */
static void fill(const struct tensors *t, char *memory)
{
    memset(memory, 0xcd, t->program.arena_bytes);
    for (uint32_t b = 0; b < t->program.buffer_count; b++)
        for (uint64_t i = 0; i < t->program.buffers[b].bytes; i += 4) {
            uint64_t bits = remat_hash(&(uint64_t){b}, 8, i);
            float value = (float)(bits % 2000) * 1e-3f - 1.0f;
            uint32_t word;
            if (b == 0 || b % 5 == 3)
                value = bits % 64 ? value * value + 1e-3f : 0x1p-130f;
            memcpy(&word, &value, 4);
            if (t->program.values[b].dtype == REMAT_BF16)
                word = (word & 0xffff0000u) | word >> 16;
            memcpy(memory + t->program.buffers[b].offset_bytes + i, &word, 4);
        }
    memset(flag_in(t, memory), 0, sizeof(int32_t));
}

static void run_on_cpu(remat_context *ctx, struct tensors *t)
{
    const struct remat_device_params params = {.threads = 1};
    struct remat_device *cpu;
    remat_status st = remat_cpu_device.create(ctx, &t->program, &params, &cpu);
    st = st ? st : remat_cpu_device.bind(cpu, NULL);
    st = st ? st : remat_cpu_device.begin(cpu);
    if (!st)
        memcpy(cpu->memory, t->initial, t->program.arena_bytes);
    for (uint32_t c = 0; c < t->count && !st; c++)
        st = remat_cpu_device.execute(cpu, c);
    MUST_OK(ctx, st);
    MUST_OK(ctx, remat_cpu_device.end(cpu));
    memcpy(t->expected, cpu->memory, t->program.arena_bytes);
    remat_cpu_device.destroy(&cpu);
}

static void *array(struct remat_arena *arena, size_t count, size_t size)
{
    void *items = remat_arena_array(arena, count, size);
    MUST(items);
    return items;
}

void tensors_make(remat_context *ctx, struct remat_arena *arena, enum tensors_update update,
                  uint32_t count, const int64_t *lengths, uint32_t length_count,
                  const uint64_t *offsets, uint32_t offset_count, struct tensors *out)
{
    const struct form *form = &forms[update];
    struct remat_program *p = &out->program;
    struct maker m = {p, form, count};
    *out = (struct tensors){.update = update, .count = count};
    p->buffers = array(arena, 2 + 5 * count, sizeof *p->buffers);
    p->values = array(arena, 2 + 5 * count, sizeof *p->values);
    p->operands = array(arena, OPERANDS_MAX * count, sizeof *p->operands);
    p->commands = array(arena, count, sizeof *p->commands);
    p->kernels = array(arena, 1, sizeof *p->kernels);
    p->kernels[p->kernel_count++] =
        (struct remat_kernel){REMAT_KERNEL_fused,
                              {form->instruction_count, form->instructions, form->operand_count},
                              form->key};
    add_buffer(&m, REMAT_F32, COEFFICIENTS, true);
    p->values[1 + count * 5].dtype = REMAT_I32;
    for (uint32_t t = 0; t < count; t++)
        add_tensor(&m, t, lengths[t % length_count], offsets[t % offset_count]);
    add_buffer(&m, REMAT_I32, FLAG_OFFSET + 1, true);
    MUST_OK(ctx, remat_cuda_emit(ctx, arena, p, &REMAT_CUDA_DEFAULTS, &p->cuda));
    MUST_OK(ctx, remat_cuda_groups_find(arena, p, &out->groups));
    out->initial = malloc(p->arena_bytes);
    out->expected = malloc(p->arena_bytes);
    fill(out, out->initial);
    run_on_cpu(ctx, out);
}

void tensors_spoil(remat_context *ctx, struct tensors *t, uint32_t tensor, uint32_t word)
{
    const struct remat_command *command = &t->program.commands[tensor];
    const struct remat_operand *gradient = &t->program.operands[command->operand_begin];
    uint32_t bytes = remat_dtype_bytes((remat_dtype)gradient->dtype);
    uint64_t element = gradient->offset_elements + (tensor % 2 ? command->space[0] - 1 : 0);
    memcpy(t->initial + t->program.buffers[t->program.values[gradient->value].buffer].offset_bytes +
               element * bytes,
           (char *)&word + 4 - bytes, bytes);
    run_on_cpu(ctx, t);
}

void tensors_release(struct tensors *t)
{
    free(t->initial);
    free(t->expected);
}

/* --- the emulator --- */

static const char *run_commands(const struct tensors *t, const struct kernels_place *place)
{
    const char *fault = NULL;
    for (uint32_t c = 0; c < t->count && !fault; c++)
        fault = kernels_run(place, c);
    return fault;
}

static const char *run_groups(const struct tensors *t, const struct kernels_place *place)
{
    const char *fault = NULL;
    for (uint32_t c = 0; c < t->count && !fault; c++)
        if (t->groups.group[c] == REMAT_NONE)
            fault = kernels_run(place, c);
    for (uint32_t g = 0; g < t->groups.count && !fault; g++)
        fault = kernels_run_group(place, &t->groups, g);
    return fault;
}

/* Bit for bit, but that any NaN equals any other. */
static bool is_equal(const struct remat_program *p, uint32_t buffer, const char *x, const char *y)
{
    uint8_t dtype = p->values[buffer].dtype;
    uint64_t begin = p->buffers[buffer].offset_bytes, end = begin + p->buffers[buffer].bytes;
    uint32_t bytes = remat_dtype_bytes((remat_dtype)dtype);
    for (uint64_t at = begin; at < end; at += bytes) {
        uint32_t one = 0, other = 0;
        memcpy((char *)&one + 4 - bytes, x + at, bytes);
        memcpy((char *)&other + 4 - bytes, y + at, bytes);
        bool nans = (one & 0x7fffffffu) > 0x7f800000u && (other & 0x7fffffffu) > 0x7f800000u;
        if (one != other && (dtype == REMAT_I32 || !nans))
            return false;
    }
    return true;
}

static const char *compare(const struct tensors *t, const char *memory)
{
    static char message[128];
    const struct remat_program *p = &t->program;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        if (is_equal(p, b, memory, t->expected))
            continue;
        snprintf(message, sizeof message, "buffer %u of tensor %u is not the CPU's", (b + 4) % 5,
                 (b - 1) / 5);
        return message;
    }
    for (uint32_t c = 0; c < t->count; c++)
        if (!(reference64_difference(p, c, t->initial, memory) < TOLERANCE64)) {
            snprintf(message, sizeof message, "tensor %u is not float64's", c);
            return message;
        }
    return NULL;
}

const char *tensors_run(const struct tensors *t, void *library, uint64_t orders)
{
    static char message[256];
    emulator_kernel **kernels = calloc(t->program.cuda.kernel_count, sizeof(emulator_kernel *));
    uint64_t bytes = t->program.arena_bytes;
    char *memory = aligned_alloc(REMAT_ALIGNMENT, bytes);
    struct emulator *emulator = emulator_create(memory, bytes);
    uint32_t state = cpu_flush_subnormals();
    const char *fault = NULL;
    for (uint32_t k = 0; k < t->program.cuda.kernel_count; k++)
        kernels[k] = kernels_find(library, t->program.cuda.kernels[k].symbol);
    for (uint64_t run = 0; run < 2 * orders && !fault; run++) {
        struct kernels_place place = {emulator, &t->program, &t->program.cuda, kernels, 0,
                                      memory,   memory,      run / 2 * 11,     NULL};
        memcpy(memory, t->initial, bytes);
        fault = run % 2 ? run_groups(t, &place) : run_commands(t, &place);
        fault = fault ? fault : compare(t, memory);
    }
    snprintf(message, sizeof message, "%s", fault ? fault : "");
    cpu_restore_float_state(state);
    emulator_destroy(&emulator);
    free(memory);
    free(kernels);
    return fault ? message : NULL;
}
