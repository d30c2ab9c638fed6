/* SPDX-License-Identifier: Apache-2.0 */
#include "large.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t large_element_bytes(const struct remat_operand *o)
{
    return remat_dtype_bytes((remat_dtype)o->dtype);
}

char *large_begin(const struct large *c, uint32_t o)
{
    return c->memory + c->buffers[o].offset_bytes;
}

/* --- programs --- */

static uint32_t add(struct large *c, uint8_t access, remat_dtype dtype, uint32_t rank,
                    const int64_t *shape, const int64_t *strides)
{
    uint32_t o = c->command.operand_end++;
    struct remat_operand *operand = &c->operands[o];
    uint64_t elements = 1;
    *operand = (struct remat_operand){.value = o,
                                      .previous = REMAT_NONE,
                                      .access = access,
                                      .dtype = (uint8_t)dtype,
                                      .rank = (uint8_t)rank};
    for (uint32_t k = 0; k < rank; k++) {
        operand->shape[k] = shape[k];
        operand->strides[k] = strides[k];
        elements += (uint64_t)((shape[k] - 1) * strides[k]);
    }
    c->values[o] = (struct remat_program_value){.buffer = o, .dtype = (uint8_t)dtype};
    c->buffers[o] = (struct remat_buffer){
        .offset_bytes = c->program.arena_bytes,
        .bytes = remat_align_up(elements * remat_dtype_bytes(dtype), REMAT_ALIGNMENT)};
    c->program.arena_bytes += c->buffers[o].bytes;
    return o;
}

/* [rows, columns], dense or, of a stride 0, repeated. */
static void add_2d(struct large *c, uint8_t access, remat_dtype dtype, int64_t row, int64_t column)
{
    const int64_t shape[] = {row ? (int64_t)c->rows : 1, column ? (int64_t)c->columns : 1};
    uint32_t o = add(c, access, dtype, 2, shape, (int64_t[]){row, column});
    for (uint32_t k = 0; k < 2; k++)
        c->operands[o].shape[k] = c->command.space[k];
    c->maps[o] = (struct map){0, (uint64_t)row, (uint64_t)column};
    c->reaches[o] = 1;
}

static void instruct(struct large *c, uint16_t opcode, uint16_t operand, uint16_t a, uint16_t b)
{
    c->instructions[c->kernel.body.instruction_count++] = (struct remat_instruction){
        .opcode = opcode, .operand = operand, .args = {a, b, REMAT_NO_REGISTER}};
}

static void begin(struct large *c, uint32_t kind, uint64_t rows, uint64_t columns)
{
    uint32_t least, most;
    c->kernel = (struct remat_kernel){.kind = kind, .key = remat_kernel_kind_name(kind)};
    c->command = (struct remat_command){
        .name = "large", .rank = 2, .space = {(int64_t)rows, (int64_t)columns}};
    c->rows = rows;
    c->columns = columns;
    if (kind != REMAT_KERNEL_fused)
        remat_kernel_kind_arity(kind, &least, &most, &c->command.parameter_end);
}

#define NONE     REMAT_NO_REGISTER
#define OP(name) REMAT_INSTRUCTION_##name

static void make_pointwise(struct large *c) /* x + bias */
{
    begin(c, REMAT_KERNEL_fused, 1000003, 65601);
    add_2d(c, REMAT_ACCESS_READ, REMAT_BF16, 65608, 1);
    add_2d(c, REMAT_ACCESS_READ, REMAT_BF16, 0, 1);
    add_2d(c, REMAT_ACCESS_WRITE, REMAT_BF16, 65608, 1);
    instruct(c, OP(load), 0, NONE, NONE);
    instruct(c, OP(load), 1, NONE, NONE);
    instruct(c, OP(add), 0, 0, 1);
    instruct(c, OP(store), 2, 2, NONE);
    c->counted = 2;
}

static void make_rows(struct large *c, uint64_t rows, uint64_t columns) /* x - max(x) */
{
    begin(c, REMAT_KERNEL_fused, rows, columns);
    add_2d(c, REMAT_ACCESS_READ, REMAT_BF16, (int64_t)columns, 1);
    add_2d(c, REMAT_ACCESS_WRITE, REMAT_BF16, (int64_t)columns, 1);
    instruct(c, OP(load), 0, NONE, NONE);
    instruct(c, OP(row_max), 0, 0, NONE);
    instruct(c, OP(sub), 0, 0, 1);
    instruct(c, OP(store), 1, 2, NONE);
    c->counted = 1;
}

static void make_team(struct large *c)
{
    make_rows(c, 550000003, 40);
}

static void make_block(struct large *c)
{
    make_rows(c, 17000003, 8200);
}

static void make_sums(struct large *c, uint64_t rows, uint64_t columns)
{
    begin(c, REMAT_KERNEL_fused, rows, columns);
    add_2d(c, REMAT_ACCESS_READ, REMAT_BF16, (int64_t)columns, 1);
    add_2d(c, REMAT_ACCESS_WRITE, REMAT_F32, 0, 1);
    instruct(c, OP(load), 0, NONE, NONE);
    instruct(c, OP(column_sum), 0, 0, NONE);
    instruct(c, OP(store), 1, 1, NONE);
}

static void make_columns(struct large *c)
{
    make_sums(c, 300, 17000008);
}

static void make_tall(struct large *c)
{
    make_sums(c, 70000003, 64);
}

static void make_wide(struct large *c)
{
    make_sums(c, 8, 1100000008);
}

static void make_tensors(struct large *c) /* y += x */
{
    begin(c, REMAT_KERNEL_fused, 1, 4294901752);
    add_2d(c, REMAT_ACCESS_READ, REMAT_F32, 0, 1);
    add_2d(c, REMAT_ACCESS_UPDATE, REMAT_F32, 0, 1);
    for (uint32_t o = 0; o < 2; o++)
        c->buffers[o].persistent = true;
    instruct(c, OP(load), 0, NONE, NONE);
    instruct(c, OP(load), 1, NONE, NONE);
    instruct(c, OP(add), 0, 0, 1);
    instruct(c, OP(store), 1, 2, NONE);
    c->counted = 1;
}

#define LAST_ROWS                                                                                  \
    4300003 /* of a table; ids are its last row, which no offset of 32 bits reaches                \
             */

static void set_id(const struct large *c, uint64_t row, uint32_t value)
{
    memcpy(large_begin(c, 1) + row * 4, &value, 4); /* the others' are 0 */
}

static void set_index(const struct large *c, uint64_t row, uint32_t value)
{
    (void)row;
    memcpy(large_begin(c, 1), &value, 4);
}

static void make_gather(struct large *c)
{
    const int64_t columns = 4096, tokens = LAST_ROWS;
    begin(c, REMAT_KERNEL_embedding, (uint64_t)tokens, (uint64_t)columns);
    add_2d(c, REMAT_ACCESS_READ, REMAT_F32, columns, 1); /* the table, of as many rows */
    c->maps[0] = (struct map){(LAST_ROWS - 1) * (uint64_t)columns, 0, 1};
    add(c, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, (int64_t[]){1});
    c->maps[1].row = c->reaches[1] = 1;
    add_2d(c, REMAT_ACCESS_WRITE, REMAT_F32, columns, 1);
    c->counted = 2;
    c->prepare = set_id;
    c->value = LAST_ROWS - 1;
}

/* In the sorted list, of which the rest has id 0, what a block adds. */
static void set_list(const struct large *c, uint64_t row, uint32_t value)
{
    const struct remat_cuda_launch *last = &c->code.launches[c->code.launch_count - 1];
    char *list = c->memory + c->program.arena_bytes + c->code.words[last->word_begin + 3].value;
    for (uint64_t i = row; i < row + 128 && i < c->rows; i++)
        memcpy(list + i * 8, (uint32_t[]){value, (uint32_t)i}, 8);
}

static void make_sums_of_rows(struct large *c, int64_t tokens, int64_t columns)
{
    begin(c, REMAT_KERNEL_embedding_backward, (uint64_t)tokens, (uint64_t)columns);
    add_2d(c, REMAT_ACCESS_READ, REMAT_F32, columns, 1);
    add(c, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, (int64_t[]){1});
    add(c, REMAT_ACCESS_UPDATE, REMAT_F32, 2, (int64_t[]){LAST_ROWS, columns},
        (int64_t[]){columns, 1});
    c->maps[2] = (struct map){(LAST_ROWS - 1) * (uint64_t)columns, 0, 1};
    c->reaches[2] = 1;
    c->parameters[0] = 1; /* added to */
    c->prepare = set_list;
    c->value = LAST_ROWS - 1;
}

static void make_scatter(struct large *c)
{
    make_sums_of_rows(c, LAST_ROWS, 1024);
}

static void make_list(struct large *c) /* of more bytes than 2^32 */
{
    make_sums_of_rows(c, 1073746827, 8);
}

static void make_normal(struct large *c)
{
    begin(c, REMAT_KERNEL_fill_normal, 1, 17200000003);
    add(c, REMAT_ACCESS_WRITE, REMAT_BF16, 1, (int64_t[]){17200000003}, (int64_t[]){1});
    c->maps[0].column = c->reaches[0] = 1;
    c->parameters[1] = 1;
}

static void make_slice(struct large *c) /* the last of two parts, single elements */
{
    const int64_t count = 4400000003;
    begin(c, REMAT_KERNEL_batch_slice, 1, (uint64_t)count);
    add(c, REMAT_ACCESS_READ, REMAT_BF16, 2, (int64_t[]){2, count}, (int64_t[]){count, 1});
    add(c, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, (int64_t[]){1});
    add(c, REMAT_ACCESS_WRITE, REMAT_BF16, 2, (int64_t[]){1, count}, (int64_t[]){count, 1});
    for (uint32_t o = 0; o < 3; o += 2)
        c->maps[o].column = c->reaches[o] = 1;
    c->maps[0].base = (uint64_t)count;
    c->counted = 2;
    c->prepare = set_index;
    c->value = 1;
}

static void add_heads(struct large *c, uint8_t access)
{
    const int64_t batch = (int64_t)c->rows / LARGE_HEADS, time = LARGE_HEADS * LARGE_SIZE;
    uint32_t o =
        add(c, access, REMAT_BF16, 4, (int64_t[]){batch, LARGE_TIME, LARGE_HEADS, LARGE_SIZE},
            (int64_t[]){LARGE_TIME * time, time, LARGE_SIZE, 1});
    c->reaches[o] = (LARGE_TIME - 1) * LARGE_HEADS * LARGE_SIZE + LARGE_SIZE;
}

static void add_sums(struct large *c, uint8_t access)
{
    const int64_t batch = (int64_t)c->rows / LARGE_HEADS;
    uint32_t o = add(c, access, REMAT_F32, 3, (int64_t[]){batch, LARGE_HEADS, LARGE_TIME},
                     (int64_t[]){LARGE_HEADS * LARGE_TIME, LARGE_TIME, 1});
    c->maps[o].row = c->reaches[o] = LARGE_TIME;
}

static void begin_attention(struct large *c, uint32_t kind)
{
    begin(c, kind, 1050001 * LARGE_HEADS, 1); /* a row: a head */
    c->parameters[0] = 0.125;
    c->of_heads = true;
}

static void make_attention(struct large *c)
{
    begin_attention(c, REMAT_KERNEL_attention);
    for (uint32_t o = 0; o < 3; o++)
        add_heads(c, REMAT_ACCESS_READ);
    add_heads(c, REMAT_ACCESS_WRITE);
    add_sums(c, REMAT_ACCESS_WRITE);
}

static void make_gradient(struct large *c)
{
    begin_attention(c, REMAT_KERNEL_attention_backward);
    for (uint32_t o = 0; o < 5; o++)
        add_heads(c, REMAT_ACCESS_READ);
    add_sums(c, REMAT_ACCESS_READ);
    for (uint32_t o = 0; o < 3; o++)
        add_heads(c, REMAT_ACCESS_WRITE);
}

const struct large_maker large_makers[] = {
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, make_##name                                                                         \
    }
    CASE(pointwise), CASE(team),    CASE(block),     CASE(columns), CASE(tall),
    CASE(wide),      CASE(tensors), CASE(gather),    CASE(scatter), CASE(list),
    CASE(normal),    CASE(slice),   CASE(attention), CASE(gradient)
#undef CASE
};
const uint32_t large_count = sizeof large_makers / sizeof *large_makers;

void large_make(remat_context *ctx, struct remat_arena *arena, const struct large_maker *maker,
                struct large *c)
{
    maker->make(c);
    c->kernel.body.instructions = c->instructions;
    c->kernel.body.operand_count = c->command.operand_end;
    c->program.kernels = &c->kernel, c->program.kernel_count = 1;
    c->program.commands = &c->command, c->program.command_count = 1;
    c->program.operands = c->operands, c->program.operand_count = c->command.operand_end;
    c->program.values = c->values, c->program.buffers = c->buffers;
    c->program.parameters = c->parameters;
    MUST_OK(ctx, remat_cuda_emit(ctx, arena, &c->program, &REMAT_CUDA_DEFAULTS, &c->code), "%s",
            maker->name);
}
