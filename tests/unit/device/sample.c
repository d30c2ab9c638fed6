/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include "cpu_bf16.h"
#include "half.h"
#include "philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

/* --- the definition, instruction by instruction over the whole space --- */

static char *address(const struct sample *s, char *memory, const struct remat_operand *operand,
                     int64_t row, int64_t column, bool no_row, bool no_column)
{
    int64_t element = (int64_t)operand->offset_elements;
    if (!no_column)
        element += column * operand->strides[s->rank - 1];
    for (uint32_t k = s->rank - 1; k-- > 0; row /= s->space[k])
        if (!no_row)
            element += row % s->space[k] * operand->strides[k];
    return memory + s->buffers[operand->value].offset_bytes +
           element * remat_dtype_bytes((remat_dtype)operand->dtype);
}

static float compute(uint16_t opcode, float a, float b, float c)
{
    switch (opcode) {
    case REMAT_INSTRUCTION_add:
        return a + b;
    case REMAT_INSTRUCTION_sub:
        return a - b;
    case REMAT_INSTRUCTION_mul:
        return a * b;
    case REMAT_INSTRUCTION_div:
        return a / b;
    case REMAT_INSTRUCTION_maximum:
        return a > b ? a : b;
    case REMAT_INSTRUCTION_minimum:
        return a < b ? a : b;
    case REMAT_INSTRUCTION_equal:
        return a == b ? 1.0f : 0.0f;
    case REMAT_INSTRUCTION_less:
        return a < b ? 1.0f : 0.0f;
    case REMAT_INSTRUCTION_select:
        return a != 0.0f ? b : c;
    case REMAT_INSTRUCTION_neg:
        return -a;
    case REMAT_INSTRUCTION_exp:
        return cpu_exp(a);
    case REMAT_INSTRUCTION_log:
        return cpu_log(a);
    case REMAT_INSTRUCTION_sqrt:
        return sqrtf(a);
    case REMAT_INSTRUCTION_rsqrt:
        return 1.0f / sqrtf(a);
    case REMAT_INSTRUCTION_tanh:
        return cpu_tanh(a);
    case REMAT_INSTRUCTION_erf:
        return cpu_erf(a);
    case REMAT_INSTRUCTION_sigmoid:
        return cpu_sigmoid(a);
    case REMAT_INSTRUCTION_round_bf16:
        return cpu_round_bf16(a);
    default:
        return NAN;
    }
}

static float reduce_row(const float *row, int64_t columns, bool maximum)
{
    float lanes[64];
    for (int l = 0; l < 64; l++)
        lanes[l] = maximum ? -INFINITY : 0.0f;
    for (int64_t j = 0; j < columns; j++) {
        float *lane = &lanes[j % 64];
        *lane = maximum ? (*lane > row[j] ? *lane : row[j]) : *lane + row[j];
    }
    for (int w = 32; w; w /= 2)
        for (int l = 0; l < w; l++)
            lanes[l] = maximum ? (lanes[l] > lanes[l + w] ? lanes[l] : lanes[l + w])
                               : lanes[l] + lanes[l + w];
    return lanes[0];
}

static float reduce_column(const float *a, int64_t rows, int64_t columns, uint64_t sums)
{
    float total = 0.0f;
    int64_t length = 256;
    while (length < rows && (uint64_t)((rows + length - 1) / length * columns) > sums)
        length += 256;
    for (int64_t block = 0; block < rows; block += length) {
        float chain = 0.0f;
        for (int64_t r = block; r < rows && r < block + length; r++)
            chain += a[r * columns];
        total = block == 0 ? chain : total + chain;
    }
    return total;
}

static uint16_t narrow(uint8_t dtype, float x)
{
    return dtype == REMAT_F16 ? half_narrow(x) : cpu_narrow_bf16(x);
}

static float widen(uint8_t dtype, uint16_t x)
{
    return dtype == REMAT_F16 ? half_widen(x) : cpu_widen_bf16(x);
}

static void run_memory(const struct sample *s, const struct remat_instruction *in, char *memory,
                       float *d, const float *a, enum remat_register_class stored)
{
    const struct remat_operand *operand = &s->operands[in->operand];
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->columns; c++) {
            bool by_row = in->opcode == REMAT_INSTRUCTION_load_row || stored == REMAT_CLASS_ROW;
            char *at = address(s, memory, operand, r, c, stored == REMAT_CLASS_COLUMN, by_row);
            if (operand->dtype == REMAT_BF16 || operand->dtype == REMAT_F16) {
                uint16_t value = a ? narrow(operand->dtype, a[r * s->columns + c]) : 0;
                memcpy(a ? at : (char *)&value, a ? (char *)&value : at, 2);
                if (!a)
                    d[r * s->columns + c] = widen(operand->dtype, value);
            } else if (a) {
                memcpy(at, &a[r * s->columns + c], 4);
            } else if (operand->dtype == REMAT_I32) {
                int32_t value;
                memcpy(&value, at, 4);
                d[r * s->columns + c] = (float)value;
            } else {
                memcpy(&d[r * s->columns + c], at, 4);
            }
        }
}

/* kernel.h: the flag's first element becomes 1 if any value is NaN or infinite. */
static void run_flag(const struct sample *s, const struct remat_instruction *in, char *memory,
                     const float *a)
{
    const int32_t one = 1;
    for (int64_t e = 0; e < s->rows * s->columns; e++)
        if (!isfinite(a[e]))
            memcpy(address(s, memory, &s->operands[in->operand], 0, 0, true, true), &one, 4);
}

static float draw(const struct sample *s, const char *memory, const struct remat_instruction *in,
                  int64_t element)
{
    uint32_t state[4], words[4]; /* seed, seed, step, microbatch */
    const struct remat_operand *operand = &s->operands[in->operand];
    memcpy(state, address(s, (char *)(uintptr_t)memory, operand, 0, 0, true, true), sizeof state);
    uint64_t index = (uint64_t)element + state[3] * (uint64_t)(s->rows * s->columns);
    uint32_t counter[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32),
                           (uint32_t)in->immediate, state[2]};
    philox(counter, state, words);
    return (float)(words[index % 4] >> 8) / 16777216.0f;
}

void sample_run(const struct sample *s, const enum remat_register_class *classes, char *memory)
{
    int64_t count = s->rows * s->columns;
    float *registers = malloc(sizeof(float) * (size_t)count * s->instruction_count);
    for (uint32_t i = 0; i < s->instruction_count; i++) {
        const struct remat_instruction *in = &s->instructions[i];
        float *d = registers + i * count;
        const float *args[3] = {d, d, d};
        for (uint32_t k = 0; k < remat_opcode_arity(in->opcode); k++)
            args[k] = registers + in->args[k] * count;
        if (in->opcode <= REMAT_INSTRUCTION_store) {
            bool store = in->opcode == REMAT_INSTRUCTION_store;
            run_memory(s, in, memory, d, store ? args[0] : NULL,
                       store ? classes[in->args[0]] : REMAT_CLASS_NONE);
            continue;
        }
        if (in->opcode == REMAT_INSTRUCTION_flag)
            run_flag(s, in, memory, args[0]);
        for (int64_t e = 0; e < count && in->opcode != REMAT_INSTRUCTION_flag; e++) {
            int64_t row = e / s->columns, column = e % s->columns;
            if (in->opcode == REMAT_INSTRUCTION_constant)
                d[e] = in->immediate;
            else if (in->opcode == REMAT_INSTRUCTION_column)
                d[e] = (float)column;
            else if (in->opcode == REMAT_INSTRUCTION_random)
                d[e] = draw(s, memory, in, e);
            else if (remat_opcode_is_row_reduction(in->opcode))
                d[e] = column ? d[e - 1]
                              : reduce_row(args[0] + row * s->columns, s->columns,
                                           in->opcode == REMAT_INSTRUCTION_row_max);
            else if (remat_opcode_is_column_reduction(in->opcode))
                d[e] = row ? d[column]
                           : reduce_column(args[0] + column, s->rows, s->columns, s->column_sums);
            else
                d[e] = compute(in->opcode, args[0][e], args[1][e], args[2][e]);
        }
    }
    free(registers);
}

/* --- random samples --- */

static void make_space(struct sample *s)
{
    static const int64_t lengths[] = {1, 2, 7, 63, 64, 65, 127, 128, 129, 300, 1000, 1153, 4099};
    s->rank = 1 + random_below(4);
    s->columns = lengths[random_below(sizeof lengths / sizeof *lengths)];
    s->rows = 1;
    for (uint32_t k = 0; k + 1 < s->rank; k++)
        s->rows *= s->space[k] = 1 + random_below(s->rank == 2 ? 70 : 5);
    if (s->rank == 2 && random_below(6) == 0 && s->columns < 300)
        s->rows = s->space[0] = 250 + random_below(400);
    if (s->rank == 2 && random_below(40) == 0) {
        s->columns = 70000;
        s->rows = s->space[0] = 2;
    }
    s->space[s->rank - 1] = s->columns;
}

/* A dense tensor of the space, with its axes in a random order, some of them repeated. */
static uint32_t add_operand(struct sample *s, bool may_repeat, remat_dtype dtype)
{
    uint32_t index = s->operand_count++, order[REMAT_RANK_MAX];
    struct remat_operand *operand = &s->operands[index];
    *operand = (struct remat_operand){.value = index, .dtype = (uint8_t)dtype};
    operand->rank = (uint8_t)s->rank;
    bool shuffled = random_below(4) == 0;
    for (uint32_t k = 0; k < s->rank; k++) {
        order[k] = k;
        uint32_t other = shuffled ? random_below(k + 1) : k;
        order[k] = order[other];
        order[other] = k;
    }
    int64_t stride = 1;
    for (uint32_t k = s->rank; k-- > 0;) {
        uint32_t axis = order[k];
        operand->shape[axis] = s->space[axis];
        if (may_repeat && random_below(4) == 0)
            continue;
        operand->strides[axis] = stride;
        stride *= s->space[axis];
    }
    operand->offset_elements = random_below(3) ? 0 : random_below(20);
    s->values[index] = (struct remat_program_value){.buffer = index};
    s->buffers[index].offset_bytes = s->arena_bytes;
    s->buffers[index].bytes =
        ((uint64_t)stride + operand->offset_elements) * remat_dtype_bytes(dtype);
    s->arena_bytes += remat_align_up(s->buffers[index].bytes, REMAT_ALIGNMENT);
    return index;
}

/* i32, addressed by no axis of the space. */
static uint32_t add_fixed(struct sample *s, int64_t length, uint64_t offset_elements)
{
    uint32_t index = s->operand_count++;
    struct remat_operand *operand = &s->operands[index];
    *operand =
        (struct remat_operand){.value = index, .dtype = REMAT_I32, .rank = 1, .shape = {length}};
    operand->strides[0] = 1;
    operand->offset_elements = offset_elements;
    s->values[index] = (struct remat_program_value){.buffer = index};
    s->buffers[index] = (struct remat_buffer){.offset_bytes = s->arena_bytes, .bytes = 32};
    s->arena_bytes += REMAT_ALIGNMENT;
    return index;
}

/* Of the random state: four elements, whatever its view says. */
static uint32_t add_state(struct sample *s)
{
    return add_fixed(s, 4, random_below(3));
}

static remat_dtype any_float(void)
{
    return random_below(2) ? REMAT_F32 : REMAT_BF16;
}

static void add(struct sample *s, uint16_t opcode, uint32_t operand, uint32_t a, uint32_t b,
                uint32_t c)
{
    uint32_t args[3] = {a, b, c};
    struct remat_instruction *in = &s->instructions[s->instruction_count++];
    *in = (struct remat_instruction){.opcode = opcode, .operand = (uint16_t)operand};
    for (uint32_t k = 0; k < 3; k++)
        in->args[k] = k < remat_opcode_arity(opcode) ? (uint16_t)args[k] : REMAT_NO_REGISTER;
    in->immediate = opcode == REMAT_INSTRUCTION_constant ? (float)random_below(100) * 0.05f : 0.0f;
    if (opcode == REMAT_INSTRUCTION_random)
        in->immediate = (float)random_below(REMAT_SITES);
}

static uint32_t any_value(const struct sample *s) /* values come before stores */
{
    uint32_t near = random_below(2) && s->instruction_count > 5 ? 5 : s->instruction_count;
    return s->instruction_count - 1 - random_below(near);
}

static void add_random(struct sample *s)
{
    uint32_t kind = random_below(20);
    if (kind < 3 && s->operand_count < 8)
        add(s, REMAT_INSTRUCTION_load,
            add_operand(s, true, random_below(4) ? any_float() : REMAT_I32), 0, 0, 0);
    else if (kind < 4 && s->operand_count < 8)
        add(s, REMAT_INSTRUCTION_load_row, add_operand(s, true, any_float()), 0, 0, 0);
    else if (kind == 19 && s->operand_count < 8)
        add(s, REMAT_INSTRUCTION_random, add_state(s), 0, 0, 0);
    else if (kind < 6)
        add(s, kind < 5 ? REMAT_INSTRUCTION_constant : REMAT_INSTRUCTION_column, 0, 0, 0, 0);
    else if (kind < 8 && s->reduction == 1)
        add(s, kind < 7 ? REMAT_INSTRUCTION_row_sum : REMAT_INSTRUCTION_row_max, 0, any_value(s), 0,
            0);
    else
        add(s, (uint16_t)(REMAT_INSTRUCTION_add + random_below(18)), 0, any_value(s), any_value(s),
            any_value(s));
}

void sample_make(struct sample *s, uint64_t number)
{
    enum remat_register_class classes[SAMPLE_INSTRUCTIONS_MAX];
    random_state = number * 7919 + 1;
    random_below(1);
    *s = (struct sample){.reduction = (int)random_below(3)};
    make_space(s);
    const uint64_t sums[] = {REMAT_COLUMN_SUMS, 2 * (uint64_t)s->columns, 1, REMAT_COLUMN_SUMS};
    s->column_sums = sums[number % 4];
    bool in_place = random_below(3) == 0;
    add(s, REMAT_INSTRUCTION_load, add_operand(s, !in_place, any_float()), 0, 0, 0);
    uint32_t length = 3 + random_below(22);
    while (s->instruction_count < length)
        add_random(s);
    if (s->reduction == 2) {
        add(s, REMAT_INSTRUCTION_column_sum, 0, any_value(s), 0, 0);
        if (random_below(2))
            add(s, REMAT_INSTRUCTION_column_sum, 0, s->instruction_count - 2, 0, 0);
        for (uint32_t k = random_below(4); k > 0; k--)
            add(s, REMAT_INSTRUCTION_mul, 0, s->instruction_count - 1, any_value(s), 0);
    }
    s->kernel = (struct remat_kernel_body){s->instruction_count, s->instructions, 24};
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (remat_kernel_body_check(ctx, &s->kernel, "sample", classes)) {
        /* a sum of a sum: take the sums' arguments from the first load instead */
        for (uint32_t i = 0; i < s->instruction_count; i++)
            if (s->instructions[i].opcode == REMAT_INSTRUCTION_column_sum)
                s->instructions[i].args[0] = 0;
        if (remat_kernel_body_check(ctx, &s->kernel, "sample", classes))
            s->kernel.instruction_count = 0; /* does not happen */
    }
    remat_context_destroy(&ctx);
    uint32_t values = s->instruction_count;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t value = k ? random_below(values) : values - 1;
        bool over = in_place && k == 0 && classes[value] == REMAT_CLASS_ELEMENT;
        add(s, REMAT_INSTRUCTION_store, over ? 0 : add_operand(s, false, any_float()), value, 0, 0);
    }
    if (number % 2)
        add(s, REMAT_INSTRUCTION_flag, add_fixed(s, 1, number / 2 % 3),
            (uint32_t)(number / 2 % values), 0, 0);
    s->kernel = (struct remat_kernel_body){s->instruction_count, s->instructions, s->operand_count};
    s->program = (struct remat_program){.buffers = s->buffers, .values = s->values};
}

void sample_fill(const struct sample *s, char *memory)
{
    memset(memory, 0xcd, s->arena_bytes);
    for (uint32_t o = 0; o < s->operand_count; o++) {
        uint32_t bytes = remat_dtype_bytes((remat_dtype)s->operands[o].dtype);
        for (uint64_t e = 0; e < s->buffers[o].bytes / bytes; e++) {
            int32_t integer = (int32_t)random_below(21) - 10;
            float value = (float)integer * 0.37f + (float)random_below(1000) * 1e-3f;
            uint16_t word = narrow(s->operands[o].dtype, value);
            const void *from = s->operands[o].dtype == REMAT_I32   ? (void *)&integer
                               : s->operands[o].dtype == REMAT_F32 ? (void *)&value
                                                                   : (void *)&word;
            memcpy(memory + s->buffers[o].offset_bytes + bytes * e, from, bytes);
        }
    }
}

/* --- comparison --- */

static bool is_nan(remat_dtype dtype, const char *at)
{
    float value = 0.0f;
    uint16_t word;
    memcpy(&word, at, sizeof word);
    if (dtype != REMAT_F32)
        return isnan(widen((uint8_t)dtype, word));
    memcpy(&value, at, sizeof value);
    return isnan(value);
}

/* How many elements of operand `o` differ, and the offset in bytes of the first. */
static uint64_t count_differences(const struct sample *s, uint32_t o, const char *x, const char *y,
                                  uint64_t *first)
{
    remat_dtype dtype = (remat_dtype)s->operands[o].dtype;
    uint64_t bytes = remat_dtype_bytes(dtype), begin = s->buffers[o].offset_bytes, count = 0;
    uint64_t end = remat_align_up(begin + s->buffers[o].bytes, REMAT_ALIGNMENT);
    for (uint64_t i = begin; i < end; i += bytes)
        if (memcmp(x + i, y + i, bytes) != 0 &&
            !(dtype != REMAT_I32 && is_nan(dtype, x + i) && is_nan(dtype, y + i)))
            *first = count++ ? *first : i;
    return count;
}

bool sample_equal(const struct sample *s, const char *x, const char *y)
{
    uint64_t first;
    for (uint32_t o = 0; o < s->operand_count; o++)
        if (count_differences(s, o, x, y, &first))
            return false;
    return true;
}

void sample_print_differences(const struct sample *s, const char *x, const char *y)
{
    for (uint32_t o = 0; o < s->operand_count; o++) {
        uint64_t first = 0, count = count_differences(s, o, x, y, &first);
        uint64_t bytes = remat_dtype_bytes((remat_dtype)s->operands[o].dtype);
        uint32_t found = 0, expected = 0;
        memcpy(&found, x + first, bytes);
        memcpy(&expected, y + first, bytes);
        if (count)
            printf("[%u] %llu differ, first element %llu: %08x, not %08x\n", o,
                   (unsigned long long)count,
                   (unsigned long long)((first - s->buffers[o].offset_bytes) / bytes), found,
                   expected);
    }
}

void sample_print(const struct sample *s)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    remat_kernel_body_print(&s->kernel, &text);
    printf("rows %lld columns %lld rank %u:\n%s", (long long)s->rows, (long long)s->columns,
           s->rank, text.items);
    for (uint32_t o = 0; o < s->operand_count; o++)
        printf("  [%u] %s strides %lld %lld %lld %lld offset %llu\n", o,
               remat_dtype_name((remat_dtype)s->operands[o].dtype),
               (long long)s->operands[o].strides[0], (long long)s->operands[o].strides[1],
               (long long)s->operands[o].strides[2], (long long)s->operands[o].strides[3],
               (unsigned long long)s->operands[o].offset_elements);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}
