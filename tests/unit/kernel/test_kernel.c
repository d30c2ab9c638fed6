/* SPDX-License-Identifier: Apache-2.0 */
/* The check and the text of fused kernels; the tables. */
#include "check.h"
#include "kernel.h"
#include "lengths.h"

#define NO REMAT_NO_REGISTER
#define OP(name, operand_, a, b, c)                                                                \
    {                                                                                              \
        .opcode = REMAT_INSTRUCTION_##name, .operand = operand_, .args = { a, b, c }               \
    }

static remat_status check(remat_context *ctx, const struct remat_instruction *instructions,
                          uint32_t count, enum remat_register_class *classes)
{
    struct remat_kernel_body program = {count, instructions, 2};
    return remat_kernel_body_check(ctx, &program, "here", classes);
}

static void test_classes(remat_context *ctx)
{
    const struct remat_instruction program[] = {
        OP(load, 0, NO, NO, NO), OP(load_row, 1, NO, NO, NO), OP(constant, 0, NO, NO, NO),
        OP(mul, 0, 1, 2, NO),    OP(add, 0, 0, 3, NO),        OP(row_sum, 0, 4, NO, NO),
        OP(select, 0, 2, 2, 2),  OP(store, 1, 5, NO, NO),     OP(column, 0, NO, NO, NO),
        OP(flag, 1, 2, NO, NO),
    };
    const enum remat_register_class expected[] = {
        REMAT_CLASS_ELEMENT, REMAT_CLASS_ROW,  REMAT_CLASS_CONSTANT, REMAT_CLASS_ROW,
        REMAT_CLASS_ELEMENT, REMAT_CLASS_ROW,  REMAT_CLASS_CONSTANT, REMAT_CLASS_NONE,
        REMAT_CLASS_ELEMENT, REMAT_CLASS_NONE,
    };
    enum remat_register_class classes[10];
    CHECK_OK(ctx, check(ctx, program, 10, classes));
    CHECK(memcmp(classes, expected, sizeof classes) == 0);
    CHECK_OK(ctx, check(ctx, program, 10, NULL));
    const struct remat_instruction columns[] = {
        OP(load, 0, NO, NO, NO),     OP(column_sum, 0, 0, NO, NO), OP(neg, 0, 1, NO, NO),
        OP(load_row, 1, NO, NO, NO), OP(add, 0, 2, 3, NO),
    };
    CHECK_OK(ctx, check(ctx, columns, 5, classes));
    CHECK(classes[2] == REMAT_CLASS_COLUMN && classes[4] == REMAT_CLASS_ELEMENT, "%d, %d",
          (int)classes[2], (int)classes[4]);
}

static void test_rejects(remat_context *ctx)
{
    static const struct {
        struct remat_instruction last; /* after a load, a store of it and a column sum */
        const char *message;
    } rows[] = {
        {{.opcode = REMAT_INSTRUCTION_COUNT}, "unknown opcode"},
        {OP(load, 2, NO, NO, NO), "operand 2 of 2"},
        {OP(load, 0, 0, NO, NO), "expected 0 arguments"},
        {OP(add, 0, 0, NO, NO), "not defined yet"},
        {OP(add, 0, 0, 3, NO), "register 3, which is not defined yet"},
        {OP(neg, 0, 1, NO, NO), "a store"},
        {OP(neg, 0, 0, 0, NO), "expected 1 arguments"},
        {OP(column_sum, 0, 2, NO, NO), "reduced already"},
        {OP(row_max, 0, 0, NO, NO), "row and column reductions"},
        {OP(random, 2, NO, NO, NO), "operand 2 of 2"},
        {OP(flag, 2, 0, NO, NO), "operand 2 of 2"},
        {OP(flag, 0, 1, NO, NO), "a store"},
        {OP(flag, 0, NO, NO, NO), "register 65535, which is not defined yet"},
        {{REMAT_INSTRUCTION_random, 0, {NO, NO, NO}, 0, 0.5f}, "0.5 is no site"},
        {{REMAT_INSTRUCTION_random, 0, {NO, NO, NO}, 0, 16777216.0f}, "no site"},
        {{REMAT_INSTRUCTION_random, 0, {NO, NO, NO}, 0, -1.0f}, "no site"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct remat_instruction program[] = {OP(load, 0, NO, NO, NO), OP(store, 1, 0, NO, NO),
                                              OP(column_sum, 0, 0, NO, NO), rows[r].last};
        CHECK_STATUS(ctx, check(ctx, program, 4, NULL), REMAT_ERROR_INVALID, rows[r].message);
        CHECK(strstr(remat_context_message(ctx), "here: instruction 3"), "%s",
              remat_context_message(ctx));
    }
}

static void test_print(remat_context *ctx)
{
    const struct remat_instruction program[] = {
        OP(load, 0, NO, NO, NO),
        {.opcode = REMAT_INSTRUCTION_constant, .immediate = 0.5f},
        OP(add, 0, 0, 1, NO),
        OP(store, 1, 2, NO, NO),
        {.opcode = REMAT_INSTRUCTION_random, .operand = 1, .immediate = 16777215.0f},
        OP(flag, 1, 2, NO, NO)};
    struct remat_kernel_body kernel = {6, program, 2};
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    remat_kernel_body_print(&kernel, &text);
    CHECK(strcmp(text.items, "r0 = load [0]\nr1 = constant 0.5\nr2 = add r0 r1\nstore [1] r2\n"
                             "r4 = random [1] 16777215\nflag [1] r2\n") == 0);
    remat_arena_release(&arena);
}

static void test_tables(void)
{
    uint32_t least, most, parameters;
    CHECK(strcmp(remat_opcode_name(REMAT_INSTRUCTION_column_sum), "column_sum") == 0);
    CHECK(!remat_opcode_name(REMAT_INSTRUCTION_COUNT));
    CHECK(remat_opcode_arity(REMAT_INSTRUCTION_select) == 3);
    CHECK(strcmp(remat_kernel_kind_name(REMAT_KERNEL_fused), "program") == 0);
    CHECK(!remat_kernel_kind_name(REMAT_KERNEL_KIND_COUNT));
    remat_kernel_kind_arity(REMAT_KERNEL_attention_backward, &least, &most, &parameters);
    CHECK(least == 9 && most == 12 && parameters == 4, "%u to %u, %u", least, most, parameters);
    for (uint32_t kind = 1; kind < REMAT_KERNEL_KIND_COUNT; kind++) {
        const struct remat_kernel_row *row = remat_kernel_row(kind);
        int length;
        size_t letters = strlen(row->dtypes), names = 0;
        while (remat_kernel_row_name(row->operands, (uint32_t)names, &length))
            CHECK(length > 0 && names++ < 12);
        CHECK(names == letters && letters == strlen(row->access));
        CHECK(row->operands_min <= letters && letters <= row->operands_max);
        for (uint32_t k = 0; k < letters; k++) { /* what is optional comes last */
            CHECK(remat_kernel_row_name(row->shapes, k, &length), "%s", row->name);
            CHECK(remat_kernel_row_optional(row, k) ==
                      (k >= row->operands_min && letters == row->operands_max),
                  "%s %u", row->name, k);
        }
        CHECK(!remat_kernel_row_name(row->shapes, (uint32_t)letters, &length), "%s", row->name);
        CHECK(strspn(row->dtypes, "feFi.=") == letters && strspn(row->access, "rwux") == letters);
        CHECK(row->touched < row->operands_min && row->touched_like < row->operands_min);
    }
}

/* Which operands are there, and where: key_segments without a random state. */
static void test_absent(void)
{
    const uint32_t kind = REMAT_KERNEL_attention, absent = 1u << 5 | 1u << 6;
    CHECK(remat_kernel_operand(kind, absent, 6, "key_segments") == 5);
    CHECK(remat_kernel_operand(kind, absent, 6, "rng") == REMAT_NONE);
    CHECK(remat_kernel_operand(kind, 0, 6, "rng") == 5 &&
          remat_kernel_operand(kind, 0, 6, "lse") == 4);
    CHECK(remat_kernel_operand(kind, 0, 6, "key_segments") == REMAT_NONE);
    CHECK(remat_operand_number(absent, 4) == 4 && remat_operand_number(absent, 5) == 7);
    CHECK(remat_operand_number(UINT32_C(1) << 31, 31) == 32 && remat_operand_number(0, 99) == 99);
    CHECK(remat_kernel_row_letter(remat_kernel_row(kind), absent, 5, 6) == 7);
    CHECK(remat_kernel_row_letter(remat_kernel_row(REMAT_KERNEL_concat), 0, 3, 5) == 0);
}

/* Letters keep their lengths, * its axes; too many axes are none. */
static void test_lengths(void)
{
    struct remat_lengths lengths = {0};
    const int64_t x[] = {7, 2, 3, 5}, y[] = {7, 2, 3, 4, 9, 9};
    int64_t out[REMAT_RANK_MAX];
    CHECK(remat_axes_have(remat_lengths_axes("*ab]"), 2) &&
          !remat_axes_have(remat_lengths_axes("*ab]"), 1));
    CHECK(remat_axes_have(remat_lengths_axes("ab]?"), 2) &&
          !remat_axes_have(remat_lengths_axes("ab]?"), 3));
    CHECK(remat_lengths_expected(&lengths, "*ab]", 4, x, out) == 4 &&
          memcmp(out, x, sizeof x) == 0);
    CHECK(remat_lengths_expected(&lengths, "*2b]", 4, y, out) == 4 && out[0] == 7 && out[2] == 2 &&
          out[3] == 5);
    CHECK(remat_lengths_expected(&lengths, "b1]", 0, NULL, out) == 2 && out[0] == 5 && out[1] == 1);
    lengths = (struct remat_lengths){0};
    CHECK(remat_lengths_expected(&lengths, "*]", 6, y, out) == 6);
    CHECK(remat_lengths_expected(&lengths, "*c]", 1, y, out) == REMAT_NONE);
}

/* bert-large's bias of the vocabulary and gpt2-124m's of the MLP, at the largest batches. */
static void test_block_rows(void)
{
    static const struct {
        uint64_t rows, columns;
        uint32_t block_rows;
    } all[] = {
        {0, 5, 256},
        {5, 0, 256},
        {16384, 3072, 256},
        {341 * 256, 3072, 256},
        {341 * 256 + 1, 3072, 512},
        {704 * 1024, 3072, 9 * 256},
        {144 * 512, 30522, 9 * 256},
        {1024 * 1024, 1024, 4 * 256},
        {257, REMAT_COLUMN_SUMS / 2, 256},
        {1000, REMAT_COLUMN_SUMS, 4 * 256},
        {1000, REMAT_COLUMN_SUMS + 1, 4 * 256},
        {UINT32_MAX - 65536, 1, 16 * 256},
        {UINT32_MAX - 65536, REMAT_COLUMN_SUMS, UINT32_MAX - 65535},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t rows = remat_column_block_rows(all[i].rows, all[i].columns, REMAT_COLUMN_SUMS);
        CHECK(rows == all[i].block_rows, "%lld, not %lld", (long long)rows,
              (long long)all[i].block_rows);
    }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_classes(ctx);
    test_rejects(ctx);
    test_print(ctx);
    test_tables();
    test_absent();
    test_lengths();
    test_block_rows();
    remat_context_destroy(&ctx);
    return check_exit();
}
