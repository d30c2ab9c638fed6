/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight: a program by hand, and what verifier and simulator refuse of it. */
#include "check.h"
#include "program.h"
#include "reader.h"

#include <program.h>

enum { RANK, A, B, C, X, Y, VALUES, OTHER_RANK = VALUES }; /* values, each in its own buffer */
enum { TO_X = 1, TO_Y = 3, COMMANDS = 7 };

/* On two ranks, f32:                                    the same with a group:
 *
 *     0 fill      a [4]                                    fill    a [4]
 *     1 exchange  x [2, 2] from a, complete before 5       fill    b [4]
 *     2 fill      b [4]                                    gather  x [8] from a, complete before 5
 *     3 gather    y [8] from b, complete before 6          gather  y [8] from b, in its group
 *     4 fill      c [4]                                    fill    c [4]
 *     5 copy      c = x                                    copy    c = first half of x
 *     6 copy      c = first half of y                      copy    c = first half of y */
struct flying {
    struct remat_program program;
    struct remat_buffer buffers[VALUES + 1];
    struct remat_program_value values[VALUES + 1];
    struct remat_operand operands[11];
    struct remat_kernel kernels[4];
    struct remat_command commands[COMMANDS];
    struct remat_segment segment;
    struct remat_tensor tensors[2];
    struct remat_mesh_axis mesh[2];
    double parameters[5];
};

static remat_context *ctx;
static bool listing; /* every message, for rules.py */

static void add_value(struct flying *f, uint32_t v, const char *name, int64_t elements,
                      uint32_t begin, uint32_t end)
{
    struct remat_buffer *last = v ? &f->buffers[v - 1] : NULL;
    f->values[v] = (struct remat_program_value){.name = name,
                                                .scope = "",
                                                .layer = -1,
                                                .dtype = v == RANK ? REMAT_I32 : REMAT_F32,
                                                .rank = 1,
                                                .shape = {elements},
                                                .bytes = 4 * (uint64_t)elements,
                                                .buffer = v};
    f->buffers[v] = (struct remat_buffer){.offset_bytes = last ? last->offset_bytes + 256 : 0,
                                          .bytes = f->values[v].bytes,
                                          .begin = begin,
                                          .end = end,
                                          .persistent = v == RANK};
}

static void add_operand(struct flying *f, uint32_t value, uint8_t access, int64_t rows,
                        int64_t columns)
{
    f->operands[f->program.operand_count++] =
        (struct remat_operand){.value = value,
                               .previous = REMAT_NONE,
                               .access = access,
                               .dtype = f->values[value].dtype,
                               .rank = rows ? 2 : 1,
                               .shape = {rows ? rows : columns, columns},
                               .strides = {rows ? columns : 1, 1}};
    f->commands[f->program.command_count].operand_end = f->program.operand_count;
}

static void begin_command(struct flying *f, const char *name, uint32_t kernel, bool parameter)
{
    uint32_t c = f->program.command_count, at = f->program.parameter_count;
    f->program.parameter_count += parameter;
    f->commands[c] = (struct remat_command){.kernel = kernel,
                                            .operand_begin = f->program.operand_count,
                                            .parameter_begin = at,
                                            .parameter_end = at + parameter,
                                            .name = name,
                                            .scope = "",
                                            .layer = -1};
}

enum { FILL, EXCHANGE, GATHER, COPY }; /* kernels */

static void add_fill(struct flying *f, uint32_t value)
{
    begin_command(f, f->values[value].name, FILL, true);
    add_operand(f, value, REMAT_ACCESS_WRITE, 0, 4);
    f->program.command_count++;
}

static void add_transfer(struct flying *f, uint32_t from, uint32_t to, uint32_t complete_before)
{
    bool exchange = f->values[to].shape[0] == 4;
    begin_command(f, f->values[to].name, exchange ? EXCHANGE : GATHER, true);
    add_operand(f, from, REMAT_ACCESS_READ, 0, 4);
    add_operand(f, to, REMAT_ACCESS_WRITE, exchange ? 2 : 0, exchange ? 2 : 8);
    f->commands[f->program.command_count++].complete_before = complete_before;
}

static void add_copy(struct flying *f, uint32_t from, uint32_t to)
{
    begin_command(f, f->values[to].name, COPY, false);
    add_operand(f, from, REMAT_ACCESS_READ, 0, 4);
    add_operand(f, to, REMAT_ACCESS_WRITE, 0, 4);
    f->program.command_count++;
}

/* What a program claims of its buffers. */
static void claim(struct flying *f)
{
    struct remat_program *p = &f->program;
    p->peak_bytes = p->touched_bytes = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        uint64_t bytes = p->static_bytes;
        for (uint32_t b = 0; b < p->buffer_count; b++)
            if (!p->buffers[b].persistent && p->buffers[b].begin <= c && c < p->buffers[b].end)
                bytes += remat_align_up(p->buffers[b].bytes, REMAT_ALIGNMENT);
        p->commands[c].live_bytes = bytes;
        if (bytes > p->peak_bytes) {
            p->peak_bytes = bytes;
            p->peak_command = c;
        }
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        uint64_t end = p->buffers[b].offset_bytes + p->buffers[b].bytes;
        p->touched_bytes = end > p->touched_bytes ? end : p->touched_bytes;
    }
}

static void finish(struct flying *f)
{
    static const uint32_t kinds[] = {REMAT_KERNEL_fill, REMAT_KERNEL_exchange, REMAT_KERNEL_gather,
                                     REMAT_KERNEL_copy};
    struct remat_program *p = &f->program;
    for (uint32_t k = 0; k < 4; k++)
        f->kernels[k] = (struct remat_kernel){.kind = kinds[k], .key = "key"};
    add_fill(f, C);
    add_copy(f, X, C);
    add_copy(f, Y, C);
    f->segment = (struct remat_segment){"train", 0, COMMANDS};
    f->tensors[0] = (struct remat_tensor){.name = "rank", .value = RANK};
    f->mesh[0] = (struct remat_mesh_axis){"dp", 2, 0};
    p->producer = p->graph_name = p->target = p->policy = "";
    p->number_tensor = REMAT_NONE;
    p->arena_bytes = 512 * VALUES;
    p->static_bytes = 256;
    p->buffer_count = p->value_count = VALUES;
    p->kernel_count = 4;
    p->segment_count = p->tensor_count = p->mesh_count = 1;
    p->buffers = f->buffers;
    p->values = f->values;
    p->operands = f->operands;
    p->kernels = f->kernels;
    p->commands = f->commands;
    p->segments = &f->segment;
    p->tensors = f->tensors;
    p->mesh = f->mesh;
    p->parameters = f->parameters;
    claim(f);
}

static void make(struct flying *f)
{
    memset(f, 0, sizeof *f);
    add_value(f, RANK, "rank", 1, 0, COMMANDS);
    add_value(f, A, "a", 4, 0, 5);
    add_value(f, B, "b", 4, 2, 6);
    add_value(f, C, "c", 4, 4, 7);
    add_value(f, X, "x", 4, 1, 6);
    add_value(f, Y, "y", 8, 3, 7);
    add_fill(f, A);
    add_transfer(f, A, X, 5);
    add_fill(f, B);
    add_transfer(f, B, Y, 6);
    finish(f);
}

static void make_group(struct flying *f)
{
    memset(f, 0, sizeof *f);
    add_value(f, RANK, "rank", 1, 0, COMMANDS);
    add_value(f, A, "a", 4, 0, 5);
    add_value(f, B, "b", 4, 1, 5);
    add_value(f, C, "c", 4, 4, 7);
    add_value(f, X, "x", 8, 2, 6);
    add_value(f, Y, "y", 8, 3, 7);
    add_fill(f, A);
    add_fill(f, B);
    add_transfer(f, A, X, 5);
    add_transfer(f, B, Y, 5);
    f->commands[3].continues_group = true;
    finish(f);
}

/* As `make` does on 2 x 2 ranks: y comes along another axis. */
static void make_links(struct flying *f)
{
    make(f);
    f->values[OTHER_RANK] = f->values[RANK];
    f->values[OTHER_RANK].name = "other rank";
    f->values[OTHER_RANK].buffer = OTHER_RANK;
    f->buffers[OTHER_RANK] = f->buffers[RANK];
    f->buffers[OTHER_RANK].offset_bytes = 256;
    for (uint32_t v = A; v < VALUES; v++)
        f->buffers[v].offset_bytes += 256;
    f->tensors[1] = (struct remat_tensor){.name = "other rank", .value = OTHER_RANK};
    f->mesh[1] = (struct remat_mesh_axis){"tp", 2, 1};
    f->parameters[f->commands[TO_Y].parameter_begin] = 1;
    f->program.static_bytes = 512;
    f->program.buffer_count = f->program.value_count = VALUES + 1;
    f->program.tensor_count = f->program.mesh_count = 2;
}

static void show(void)
{
    if (listing)
        printf("%s\n", remat_context_message(ctx));
}

/* Part of the verifier's message and of the simulator's; NULL: it is not refused. */
static void expect(struct flying *f, const char *verifier, const char *simulator)
{
    claim(f);
    remat_status verified = remat_program_verify(ctx, &f->program);
    CHECK_STATUS(ctx, verified, verifier ? REMAT_ERROR_INVALID : REMAT_OK,
                 verifier ? verifier : "");
    if (verified)
        show();
    remat_status simulated = remat_program_simulate(ctx, &f->program);
    CHECK_STATUS(ctx, simulated, simulator ? REMAT_ERROR_INVALID : REMAT_OK,
                 simulator ? simulator : "");
    if (simulated)
        show();
}

/* The value of an operand of a command. */
static uint32_t *value_of(struct flying *f, uint32_t command, uint32_t operand)
{
    return &f->operands[f->commands[command].operand_begin + operand].value;
}

#define CASE_OF(made, statement, verifier, simulator)                                              \
    {                                                                                              \
        struct flying flying, *f = &flying;                                                        \
        made(f);                                                                                   \
        statement;                                                                                 \
        expect(f, verifier, simulator);                                                            \
    }
#define CASE(statement, verifier, simulator) CASE_OF(make, statement, verifier, simulator)
#define GROUP_CASE(statement, verifier, simulator)                                                 \
    CASE_OF(make_group, statement, verifier, simulator)

static void test_completions(void)
{
    CASE((void)0, NULL, NULL)
    CASE(f->commands[TO_X].complete_before = 2, NULL, NULL)
    CASE(f->commands[TO_X].complete_before = 6,
         "commands[1] \"x\": complete before command 6, but the buffer 1 of \"a\" lives only in "
         "[0, 5)",
         "commands[1] \"x\": it goes on until command 6, and the buffer 1 of \"a\" is freed before "
         "command 5")
    CASE(f->commands[TO_X].complete_before = 6;
         f->buffers[A].end = 6,
         "commands[5] \"c\": operand 0 reads bytes [1024, 1040) of the arena, in \"x\", but "
         "commands[1] \"x\" writes some of them until command 6",
         "commands[5] \"c\": operand 0 uses \"x\" in buffer 4 [1024, 1040), which commands[1] "
         "\"x\" receives until command 6")
    CASE(f->commands[TO_Y].complete_before = 7;
         f->buffers[B].end = 7,
         "commands[6] \"c\": operand 0 reads bytes [1280, 1296) of the arena, in \"y\"",
         "commands[6] \"c\": operand 0 uses \"y\"")
    CASE(f->commands[TO_Y].complete_before = 8; f->buffers[B].end = 7,
                                                "complete before command 8, accepted: 4 to 7",
                                                "is freed before command 7")
    CASE(f->buffers[A].end = 4,
         "commands[1] \"x\": complete before command 5, but the buffer 1 of \"a\" lives only in "
         "[0, 4)",
         "the buffer 1 of \"a\" is freed before command 4")
    CASE(f->buffers[B].begin = 1; f->buffers[X].end = 4,
                                  "but the buffer 4 of \"x\" lives only in [1, 4)",
                                  "the buffer 4 of \"x\" is freed before command 4")
}

/* Before what it sends is computed. */
static void start_early(struct flying *f)
{
    struct remat_command fill = f->commands[0];
    struct remat_operand filled = f->operands[0];
    memmove(&f->operands[0], &f->operands[1], 2 * sizeof *f->operands);
    f->operands[2] = filled;
    f->commands[0] = f->commands[TO_X];
    f->commands[1] = fill;
    f->commands[0].operand_begin = 0;
    f->commands[0].operand_end = f->commands[1].operand_begin = 2;
    f->commands[1].operand_end = 3;
    f->buffers[X].begin = 0;
}

static void test_starts(void)
{
    CASE(start_early(f),
         "commands[1] \"a\": operand 0 writes bytes [256, 272) of the arena, in \"a\", but "
         "commands[0] \"x\" reads some of them until command 5",
         "commands[0] \"x\": operand 0 reads \"a\", which nothing has written yet")
}

static void test_uses(void)
{
    CASE(*value_of(f, 2, 0) = A,
         "commands[2] \"b\": operand 0 writes bytes [256, 272) of the arena, in \"a\", but "
         "commands[1] \"x\" reads some of them until command 5",
         "commands[2] \"b\": operand 0 uses \"a\" in buffer 1 [256, 272), which commands[1] \"x\" "
         "sends until command 5")
    CASE(*value_of(f, 4, 0) = X, "operand 0 writes bytes [1024, 1040) of the arena, in \"x\"",
         "which commands[1] \"x\" receives until command 5")
    CASE(*value_of(f, 4, 0) = B, "but commands[3] \"y\" reads some of them until command 6",
         "which commands[3] \"y\" sends until command 6")
    CASE(*value_of(f, TO_Y, 0) = X, NULL, NULL) /* one after the other */
    CASE(*value_of(f, TO_Y, 0) = A; f->buffers[A].end = 6, NULL, NULL)
    CASE(*value_of(f, 5, 0) = A; f->buffers[A].end = 6, NULL, NULL)
    CASE(*value_of(f, TO_X, 0) = *value_of(f, TO_Y, 0) = A; *value_of(f, 5, 1) = A;
         f->buffers[A].end = 6, "commands[5] \"c\": operand 1 writes bytes [256, 272)",
         "which commands[3] \"y\" sends until command 6")
    CASE(*value_of(f, TO_X, 0) = *value_of(f, TO_Y, 0) = A; *value_of(f, 4, 0) = A;
         f->commands[TO_Y].complete_before = 4, NULL, NULL)
}

/* Of the arena, whatever buffers they lie in. */
static void test_bytes(void)
{
    CASE(f->buffers[B].offset_bytes = 256,
         "commands[2] \"b\": operand 0 writes bytes [256, 272) of the arena, in \"b\", but "
         "commands[1] \"x\" reads",
         "buffers 1 [256, 272) and 2 [256, 272) live at once and overlap")
    CASE(f->buffers[Y].offset_bytes = 768;
         f->buffers[X].offset_bytes = 768,
         "commands[4] \"c\": operand 0 writes bytes [768, 784) of the arena, in \"c\", but "
         "commands[3] \"y\" writes",
         "live at once and overlap")
    CASE(f->buffers[C].offset_bytes = 1024; f->buffers[X].bytes = 272;
         f->buffers[X].offset_bytes = 768,
         "commands[4] \"c\": operand 0 writes bytes [1024, 1040) of the arena, in \"c\", but "
         "commands[1] \"x\" writes",
         "live at once and overlap")
}

static void test_groups(void)
{
    GROUP_CASE((void)0, NULL, NULL)
    GROUP_CASE(f->commands[2].complete_before = f->commands[3].complete_before = 4, NULL, NULL)
    GROUP_CASE(f->commands[3].continues_group = false;
               f->commands[2].complete_before = 3, NULL, NULL)
    GROUP_CASE(f->commands[4].continues_group = true,
               "commands[4] \"c\": complete before command 0, in a group or waiting for a "
               "transfer, but it is "
               "none",
               NULL)
    GROUP_CASE(f->commands[2].continues_group = true,
               "commands[2] \"x\": it continues a group, but no transfer is before it",
               "commands[2] \"x\": no group that it could continue goes on until command 5")
    GROUP_CASE(f->segment.command_begin = f->buffers[A].begin = f->buffers[B].begin =
                   f->buffers[X].begin = 3,
               "commands[3] \"y\": it continues a group, but segment \"train\" begins with it",
               "commands[3] \"y\": operand 0 reads \"b\", which nothing has written yet")
    GROUP_CASE(
        f->commands[2].complete_before = 4,
        "commands[3] \"y\": complete before command 5, but the group that it continues before "
        "command 4",
        "commands[3] \"y\": no group that it could continue goes on until command 5")
    GROUP_CASE(f->commands[3].complete_before = 4,
               "but the group that it continues before command 5",
               "no group that it could continue goes on until command 4")
    GROUP_CASE(f->commands[2].kernel = EXCHANGE; f->operands[3].rank = 2;
               f->operands[3].shape[0] = f->operands[3].shape[1] = f->operands[3].strides[0] = 2;
               f->operands[3].strides[1] = 1,
               "commands[3] \"y\": it continues a group of another kind or along another axis",
               NULL)
    GROUP_CASE(*value_of(f, 3, 0) = X,
               "commands[3] \"y\": operand 0 reads bytes [1024, 1040) of the arena, in \"x\", but "
               "commands[2] \"x\" writes some of them until command 5",
               "commands[3] \"y\": operand 0 uses \"x\"")
    GROUP_CASE(f->buffers[Y].offset_bytes = 256;
               f->buffers[B].begin = 1,
               "commands[3] \"y\": operand 1 writes bytes [256, 288) of the arena, in \"y\", but "
               "commands[2] \"x\" reads",
               "live at once and overlap")
    GROUP_CASE(f->buffers[X].end = 4;
               f->commands[5].operand_begin++,
               "complete before command 5, but the buffer 4 of \"x\" lives only in",
               "the buffer 4 of \"x\" is freed before command 4")
}

#define LINK_CASE(statement, verifier, simulator)                                                  \
    CASE_OF(make_links, statement, verifier, simulator)

/* Transfers along two axes know of each other by what waits for them alone. */
static void test_links(void)
{
    LINK_CASE((void)0, NULL, NULL)
    LINK_CASE(*value_of(f, TO_Y, 0) = X, "commands[3] \"y\": operand 0 reads bytes [1280, 1296)",
              "commands[3] \"y\": operand 0 uses \"x\"")
    LINK_CASE(*value_of(f, TO_Y, 0) = X; f->commands[TO_Y].waits_for = TO_X + 1, NULL, NULL)
    LINK_CASE(f->buffers[Y].offset_bytes = 1024;
              f->buffers[X].offset_bytes = 1024,
              "commands[3] \"y\": operand 1 writes bytes [1024, 1056) of the arena, in \"y\", but "
              "commands[1] \"x\" writes",
              "live at once and overlap")
    LINK_CASE(f->commands[TO_Y].complete_before = 5; f->commands[TO_X].complete_before = 7;
              f->buffers[A].end = f->buffers[X].end = 7,
              "commands[5] \"c\": operand 0 reads bytes [1280, 1296) of the arena, in \"x\", but "
              "commands[1] \"x\" writes some of them until command 7",
              "commands[5] \"c\": operand 0 uses \"x\"")
    LINK_CASE(f->commands[TO_Y].complete_before = 5; f->commands[TO_X].complete_before = 7;
              f->commands[TO_Y].waits_for = TO_X + 1;
              f->buffers[A].end = f->buffers[X].end = 7, NULL, NULL)
}

static void refuse_wait(uint32_t command, uint32_t waits_for, double axis, const char *message)
{
    struct flying f;
    make_links(&f);
    f.commands[command].waits_for = waits_for + 1;
    f.parameters[f.commands[TO_Y].parameter_begin] = axis;
    claim(&f);
    CHECK_STATUS(ctx, remat_program_verify(ctx, &f.program), REMAT_ERROR_INVALID, message);
    show();
}

static void test_waits(void)
{
    static const char *const none = ", which is no transfer of its segment before its group";
    refuse_wait(TO_Y, TO_Y, 1, none);
    refuse_wait(TO_Y, 0, 1, none);
    refuse_wait(TO_X, TO_Y, 1, none);
    refuse_wait(TO_Y, TO_X, 0, "it waits for command 1, which is on the same link");
    refuse_wait(4, TO_X, 1, "in a group or waiting for a transfer, but it is none");
}

/* In a file 0 means blocking. */
static void test_file(struct remat_arena *arena)
{
    struct flying flying, *f = &flying;
    struct remat_program *read = NULL;
    const void *data, *other;
    size_t bytes = 0, bytes_other, at = REMAT_CONTAINER_BYTES;
    make(f);
    MUST_OK(ctx, remat_program_write(ctx, &f->program, arena, &data, &bytes));
    MUST_OK(ctx, remat_program_read(ctx, "p", data, bytes, arena, &read));
    CHECK(read->commands[TO_X].complete_before == 5 && read->commands[TO_Y].complete_before == 6,
          "as it was written");
    f->commands[TO_X].complete_before = 4;
    MUST_OK(ctx, remat_program_write(ctx, &f->program, arena, &other, &bytes_other));
    unsigned char *file = remat_arena_array(arena, bytes, 1);
    memcpy(file, data, bytes);
    while (at < bytes && file[at] == ((const unsigned char *)other)[at])
        at++;
    MUST(bytes == bytes_other && at < bytes && file[at] == 5);
    file[at] = 0;
    uint64_t hash = remat_hash(file + REMAT_CONTAINER_BYTES, bytes - REMAT_CONTAINER_BYTES, 0);
    memcpy(file + 16, &hash, sizeof hash);
    MUST_OK(ctx, remat_program_read(ctx, "p", file, bytes, arena, &read));
    CHECK(read->commands[TO_X].complete_before == TO_X + 1, "%u",
          read->commands[TO_X].complete_before);
}

int main(int argc, char **argv)
{
    struct remat_arena arena;
    listing = argc > 1 && strcmp(argv[1], "messages") == 0;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_completions();
    test_starts();
    test_uses();
    test_bytes();
    test_groups();
    test_links();
    test_waits();
    test_file(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
