/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier on one fused kernel whose operands lie over each other: what is in place, its
 * nearest neighbour that is not, and what the difference is. All operands are of one buffer. */
#include "check.h"
#include "program.h"

#include <program.h>

enum { INSTRUCTIONS = 7, OPERANDS = 3, BUFFER_BYTES = 4096 };
enum { READ = REMAT_ACCESS_READ, WRITE = REMAT_ACCESS_WRITE, UPDATE = REMAT_ACCESS_UPDATE };
enum { FLAG = REMAT_ACCESS_FLAG, F32 = REMAT_F32, BF16 = REMAT_BF16, I32 = REMAT_I32 };

struct operand {
    uint8_t access, dtype;
    uint64_t offset_elements;
    int64_t strides[2];
};

struct test_case {
    const char *name;
    int64_t space[2];
    struct remat_instruction instructions[INSTRUCTIONS]; /* up to the first without opcode */
    struct operand operands[OPERANDS];                   /* up to the first without access */
    const char *message;                                 /* NULL: accepted */
};

#define NO REMAT_NO_REGISTER
#define I(name, operand, a, b)                                                                     \
    {                                                                                              \
        REMAT_INSTRUCTION_##name, operand, {a, b, NO}, 0, 0                                        \
    }
#define END                                                                                        \
    {                                                                                              \
        REMAT_INSTRUCTION_COUNT, 0, {NO, NO, NO}, 0, 0                                             \
    }
#define NEGATED                                                                                    \
    {                                                                                              \
        I(load, 0, NO, NO), I(neg, 0, 0, NO), I(store, 1, 1, NO), END                              \
    }
#define NEGATED_ROW                                                                                \
    {                                                                                              \
        I(load_row, 0, NO, NO), I(neg, 0, 0, NO), I(store, 1, 1, NO), END                          \
    }
#define SUMMED                                                                                     \
    {                                                                                              \
        I(load, 0, NO, NO), I(column_sum, 0, 0, NO), I(store, 1, 1, NO), END                       \
    }
#define CASE(name, rows, columns, ...)                                                             \
    {                                                                                              \
        name, {rows, columns}, __VA_ARGS__                                                         \
    }

static const struct test_case cases[] = {
#include "alias_cases.def"
};

static remat_context *ctx;
static bool listing; /* every message, for rules.py */

static void run_case(const struct test_case *t)
{
    struct remat_program_value values[2 * OPERANDS];
    struct remat_operand operands[OPERANDS];
    struct remat_buffer buffer = {0, BUFFER_BYTES, 0, 1, false};
    struct remat_kernel kernel = {.key = "key"};
    struct remat_command command = {
        .name = "c", .scope = "", .rank = 2, .space = {t->space[0], t->space[1]}};
    struct remat_segment segment = {"train", 0, 1};
    uint32_t count = 0, instructions = 0;
    while (instructions < INSTRUCTIONS &&
           t->instructions[instructions].opcode != REMAT_INSTRUCTION_COUNT)
        instructions++;
    for (; count < OPERANDS && t->operands[count].access; count++) {
        const struct operand *o = &t->operands[count];
        values[count] = (struct remat_program_value){.name = "v",
                                                     .scope = "",
                                                     .layer = -1,
                                                     .dtype = o->dtype,
                                                     .rank = 1,
                                                     .shape = {4},
                                                     .bytes = 4 * remat_dtype_bytes(o->dtype)};
        values[OPERANDS + count] = values[count]; /* its previous version, if it is updated */
        operands[count] = (struct remat_operand){
            .value = count,
            .previous = o->access == UPDATE ? OPERANDS + count : REMAT_NONE,
            .access = o->access,
            .dtype = o->dtype,
            .rank = 2,
            .shape = {1, 1},
            .strides = {o->strides[0], o->strides[1]},
            .offset_elements = o->offset_elements,
        };
    }
    for (uint32_t k = count; k < OPERANDS; k++)
        values[k] = values[OPERANDS + k] = values[0];
    kernel.body = (struct remat_kernel_body){instructions, t->instructions, count};
    command.operand_end = count;
    const struct remat_program program = {.producer = "",
                                          .graph_name = "",
                                          .target = "",
                                          .policy = "",
                                          .number_tensor = REMAT_NONE,
                                          .arena_bytes = BUFFER_BYTES,
                                          .touched_bytes = BUFFER_BYTES,
                                          .buffer_count = 1,
                                          .value_count = 2 * OPERANDS,
                                          .operand_count = count,
                                          .kernel_count = 1,
                                          .command_count = 1,
                                          .segment_count = 1,
                                          .buffers = &buffer,
                                          .values = values,
                                          .operands = operands,
                                          .kernels = &kernel,
                                          .commands = &command,
                                          .segments = &segment};
    remat_status st = remat_program_verify(ctx, &program);
    const char *got = st ? remat_context_message(ctx) : "accepted";
    CHECK(t->message ? st == REMAT_ERROR_INVALID && strstr(got, t->message) : st == REMAT_OK,
          "%s: expected \"%s\", got \"%s\"", t->name, t->message ? t->message : "accepted", got);
    if (listing && st)
        printf("%s\n", got);
}

int main(int argc, char **argv)
{
    listing = argc > 1 && strcmp(argv[1], "messages") == 0;
    MUST(ctx = remat_context_create(NULL, NULL));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        run_case(&cases[k]);
    remat_context_destroy(&ctx);
    return check_exit();
}
