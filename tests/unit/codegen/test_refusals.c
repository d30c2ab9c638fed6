/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that CUDA text cannot express, attention above all, each with its message, and its
 * neighbour that it can. */
#include "check.h"
#include "codegen.h"

struct sizes {
    int64_t queries, keys, heads, head_size, row_stride; /* of a head's row */
    uint64_t offset;                                     /* of q, in elements */
    remat_dtype dtype;
    double scale, p;
    uint64_t workspace_bytes; /* of the target */
    const char *message;      /* NULL: it can */
};

#define HEADS(head_size) 5, 7, 1, head_size, head_size, 0
static const struct sizes all[] = {
    {HEADS(128), REMAT_F32, 0.1, 0, 0, NULL},
    {HEADS(129), REMAT_F32, 0.1, 0, 0,
     "CUDA text has attention with heads of at most 128 elements, not of 129"},
    {HEADS(128), REMAT_BF16, 0.1, 0, 0, NULL},
    {HEADS(130), REMAT_BF16, 0.1, 0, 0,
     "CUDA text has attention with heads of at most 128 elements, not of 130"},
    {HEADS(256), REMAT_BF16, 0.1, 0, 0,
     "CUDA text has attention with heads of at most 128 elements, not of 256"},
    {HEADS(7), REMAT_F32, 0.1, 0, 0, NULL},
    {HEADS(6), REMAT_BF16, 0.1, 0, 0, NULL},
    {HEADS(7), REMAT_BF16, 0.1, 0, 0,
     "CUDA text has no attention with rows of 7 elements of 2 bytes that are not aligned to 4 "
     "bytes"},
    {5, 7, 1, 6, 8, 2, REMAT_BF16, 0.1, 0, 0, NULL},
    {5, 7, 1, 6, 7, 0, REMAT_BF16, 0.1, 0, 0,
     "CUDA text has no attention with rows of 6 elements of 2 bytes that are not aligned to 4 "
     "bytes"},
    {5, 7, 1, 6, 6, 1, REMAT_BF16, 0.1, 0, 0,
     "CUDA text has no attention with rows of 6 elements of 2 bytes that are not aligned to 4 "
     "bytes"},
    {HEADS(8), REMAT_F32, 0, 0, 0, "CUDA text has no attention with scale 0 and dropout 0"},
    {HEADS(8), REMAT_F32, -0.5, 0, 0, "CUDA text has no attention with scale -0.5 and dropout 0"},
    {HEADS(8), REMAT_F32, 0.1, 0.99, 0, NULL},
    {HEADS(8), REMAT_F32, 0.1, 1, 0, "CUDA text has no attention with scale 0.1 and dropout 1"},
    {1 << 30, 7, 1, 8, 8, 0, REMAT_F32, 0.1, 0, 0, "too large for CUDA text"},
    {5, 1 << 30, 1, 8, 8, 0, REMAT_F32, 0.1, 0, 0, "too large for CUDA text"},
    {1, 1, 65536, 8, 8, 0, REMAT_F32, 0.1, 0, 0, "too large for CUDA text"},
    {1, 1, 65535, 8, 8, 0, REMAT_F32, 0.1, 0, 0, NULL},
    {65, 7, 1, 8, 8, 0, REMAT_F32, 0.1, 0, 512, NULL},
    {65, 7, 1, 8, 8, 0, REMAT_F32, 0.1, 0, 256,
     "its sums need a workspace of 512 B, and the target's has 256 B: a larger workspace_bytes in "
     "its description avoids that"},
};

#define OPERANDS_MAX 10

/* Attention, or its gradient, as the only command. */
struct subject {
    struct remat_program program;
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_operand operands[OPERANDS_MAX];
    struct remat_program_value values[OPERANDS_MAX];
    struct remat_buffer buffers[OPERANDS_MAX];
    double parameters[4];
};

static void add(struct subject *s, uint8_t access, remat_dtype dtype, uint32_t rank,
                const int64_t *shape, int64_t row_stride)
{
    uint32_t o = s->command.operand_end++;
    struct remat_operand *operand = &s->operands[o];
    *operand = (struct remat_operand){.value = o,
                                      .previous = REMAT_NONE,
                                      .access = access,
                                      .dtype = (uint8_t)dtype,
                                      .rank = (uint8_t)rank};
    int64_t stride = 1;
    for (uint32_t k = rank; k-- > 0; stride = k == 3 ? row_stride : stride * shape[k])
        operand->shape[k] = shape[k], operand->strides[k] = stride;
    s->values[o] = (struct remat_program_value){.buffer = o, .dtype = (uint8_t)dtype};
    s->buffers[o] = (struct remat_buffer){.offset_bytes = (uint64_t)o << 40, .bytes = 1ull << 40};
}

static void add_heads(struct subject *s, const struct sizes *sizes, uint8_t access, int64_t time)
{
    const int64_t shape[] = {1, time, sizes->heads, sizes->head_size};
    add(s, access, sizes->dtype, 4, shape, sizes->row_stride);
}

static void add_sums(struct subject *s, const struct sizes *sizes, uint8_t access)
{
    add(s, access, REMAT_F32, 3, (int64_t[]){1, sizes->heads, sizes->queries}, 0);
}

static void make(struct subject *s, const struct sizes *sizes, bool backward)
{
    const uint8_t in = REMAT_ACCESS_READ, out = REMAT_ACCESS_WRITE;
    uint32_t kind = backward ? REMAT_KERNEL_attention_backward : REMAT_KERNEL_attention;
    *s = (struct subject){.kernel = {.kind = kind, .key = "kernel"},
                          .command = {.name = "heads", .parameter_end = 4},
                          .parameters = {sizes->scale, 0, sizes->p, 1}};
    if (backward)
        add_heads(s, sizes, in, sizes->queries);
    add_heads(s, sizes, in, sizes->queries);
    s->operands[backward].offset_elements = sizes->offset;
    add_heads(s, sizes, in, sizes->keys);
    add_heads(s, sizes, in, sizes->keys);
    add_heads(s, sizes, backward ? in : out, sizes->queries);
    add_sums(s, sizes, backward ? in : out);
    for (uint32_t gradient = 0; gradient < 3 * backward; gradient++)
        add_heads(s, sizes, out, gradient == 0 ? sizes->queries : sizes->keys);
    if (sizes->p > 0)
        add(s, in, REMAT_I32, 1, (int64_t[]){4}, 0);
    s->program = (struct remat_program){.kernels = &s->kernel,
                                        .kernel_count = 1,
                                        .commands = &s->command,
                                        .command_count = 1,
                                        .operands = s->operands,
                                        .operand_count = s->command.operand_end,
                                        .values = s->values,
                                        .value_count = s->command.operand_end,
                                        .buffers = s->buffers,
                                        .buffer_count = s->command.operand_end,
                                        .parameters = s->parameters,
                                        .parameter_count = 4};
}

static void test(remat_context *ctx, uint32_t number, bool backward)
{
    const struct sizes *sizes = &all[number];
    struct remat_cuda_settings settings = REMAT_CUDA_DEFAULTS;
    struct remat_cuda_code code;
    struct remat_arena arena;
    struct subject s;
    char expected[256];
    remat_arena_init(&arena, ctx);
    settings.workspace_bytes = sizes->workspace_bytes;
    make(&s, sizes, backward);
    remat_status st = remat_cuda_emit(ctx, &arena, &s.program, &settings, &code);
    /* The workspace is the gradient's. */
    if (!sizes->message || (!backward && sizes->workspace_bytes)) {
        CHECK_OK(ctx, st, "%u", number);
        CHECK(st || code.launch_count == (backward ? 3 : 1), "%u: %u launches", number,
              code.launch_count);
    } else {
        snprintf(expected, sizeof expected, "command \"heads\": %s", sizes->message);
        CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, "", "%u", number);
        CHECK(strcmp(remat_context_message(ctx), expected) == 0, "%u: %s", number,
              remat_context_message(ctx));
    }
    remat_arena_release(&arena);
}

/* Sums over the rows of one value: 24 and no more. */
static void test_sums(remat_context *ctx, uint32_t sums)
{
    enum { MOST = 25 };
    struct remat_instruction instructions[1 + 2 * MOST];
    struct remat_operand operands[1 + MOST];
    struct remat_program_value value = {0};
    struct remat_buffer buffer = {.bytes = 4096};
    struct remat_kernel kernel = {
        REMAT_KERNEL_fused, {1 + 2 * sums, instructions, 1 + sums}, "sums"};
    struct remat_command command = {
        .operand_end = 1 + sums, .rank = 2, .space = {2, 64}, .name = "sums"};
    const struct remat_program program = {.kernels = &kernel,
                                          .kernel_count = 1,
                                          .commands = &command,
                                          .command_count = 1,
                                          .operands = operands,
                                          .operand_count = 1 + sums,
                                          .values = &value,
                                          .value_count = 1,
                                          .buffers = &buffer,
                                          .buffer_count = 1};
    struct remat_cuda_code code;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    for (uint32_t i = 0; i < 1 + 2 * sums; i++)
        instructions[i] = (struct remat_instruction){
            .opcode = i == 0      ? REMAT_INSTRUCTION_load
                      : i <= sums ? REMAT_INSTRUCTION_column_sum
                                  : REMAT_INSTRUCTION_store,
            .operand = (uint16_t)(i > sums ? i - sums : 0),
            .args = {(uint16_t)(i > sums ? i - sums : 0), REMAT_NO_REGISTER, REMAT_NO_REGISTER}};
    instructions[0].args[0] = REMAT_NO_REGISTER;
    for (uint32_t o = 0; o < 1 + sums; o++)
        operands[o] = (struct remat_operand){
            .dtype = REMAT_BF16, .rank = 2, .shape = {2, 64}, .strides = {64, 1}};
    remat_status st = remat_cuda_emit(ctx, &arena, &program, &REMAT_CUDA_DEFAULTS, &code);
    CHECK(st == (sums < MOST ? REMAT_OK : REMAT_ERROR_INVALID), "%u sums: status %d", sums,
          (int)st);
    CHECK(sums < MOST || strcmp(remat_context_message(ctx),
                                "command \"sums\": too many sums of columns in one kernel of CUDA "
                                "text") == 0,
          "%u sums: %s", sums, remat_context_message(ctx));
    remat_arena_release(&arena);
}

/* Ids are i32: of a table with more rows than 32 bits count, those that an id can name. */
static void test_rows(remat_context *ctx)
{
    const int64_t rows = (INT64_C(1) << 32) + 3;
    struct subject s = {.kernel = {.kind = REMAT_KERNEL_embedding_backward, .key = "kernel"},
                        .command = {.name = "rows", .parameter_end = 1},
                        .parameters = {1}};
    struct remat_cuda_code code;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    add(&s, REMAT_ACCESS_READ, REMAT_BF16, 2, (int64_t[]){64, 1}, 0);
    add(&s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){64}, 0);
    add(&s, REMAT_ACCESS_UPDATE, REMAT_BF16, 2, (int64_t[]){rows, 1}, 0);
    s.program = (struct remat_program){.kernels = &s.kernel,
                                       .kernel_count = 1,
                                       .commands = &s.command,
                                       .command_count = 1,
                                       .operands = s.operands,
                                       .operand_count = 3,
                                       .values = s.values,
                                       .value_count = 3,
                                       .buffers = s.buffers,
                                       .buffer_count = 3,
                                       .parameters = s.parameters,
                                       .parameter_count = 1};
    remat_status st = remat_cuda_emit(ctx, &arena, &s.program, &REMAT_CUDA_DEFAULTS, &code);
    CHECK_OK(ctx, st, "rows");
    CHECK(!st && strstr(code.kernels[0].text, "d.ids = 2147483648u;"), "%s", code.kernels[0].text);
    remat_arena_release(&arena);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t number = 0; number < sizeof all / sizeof *all; number++)
        for (uint32_t backward = 0; backward < 2; backward++)
            test(ctx, number, backward);
    test_sums(ctx, 24);
    test_sums(ctx, 25);
    test_rows(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
