/* Embeddings and copies over ragged shapes: emitted kernels in the emulator against the CPU device,
 * bit for bit, threads and blocks in order and in random order.
 *
 *     test_moves COMPILER */
#include "cpu_device.h"
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

#define OPERANDS_MAX 4

static uint64_t random_state = 1;
static uint32_t failures;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

/* A program of one command. */
struct single {
    struct remat_program program;
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_operand operands[OPERANDS_MAX];
    struct remat_program_value values[OPERANDS_MAX];
    struct remat_buffer buffers[OPERANDS_MAX];
    double parameters[2];
    uint32_t ids_below; /* what i32 operands hold */
    struct remat_cuda_code code;
};

static void add_operand(struct single *s, uint8_t access, remat_dtype dtype, uint32_t rank,
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
        .bytes = remat_align_up((uint64_t)stride * remat_dtype_bytes(dtype), REMAT_ALIGNMENT)};
    s->program.arena_bytes += s->buffers[o].bytes;
}

static struct single *begin(uint32_t kind)
{
    static struct single s;
    s = (struct single){.kernel = {.kind = kind, .key = remat_kernel_kind_name(kind)},
                        .command = {.name = remat_kernel_kind_name(kind), .parameter_end = 2},
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
            uint32_t word = random_below(s->ids_below);
            float value = (float)random_below(2000) * 1e-3f - 1.0f;
            if (s->operands[o].dtype != REMAT_I32)
                memcpy(&word, &value, 4);
            if (s->operands[o].dtype == REMAT_BF16)
                word = (word & 0xffff0000u) | word >> 16;
            memcpy(memory + s->buffers[o].offset_bytes + i, &word, 4);
        }
}

static void run(remat_context *ctx, const char *compiler, struct single *s)
{
    struct remat_arena arena;
    struct remat_device *cpu;
    emulator_kernel *kernels[OPERANDS_MAX];
    remat_arena_init(&arena, ctx);
    uint64_t bytes = s->program.arena_bytes;
    s->program.kernels = &s->kernel, s->program.kernel_count = 1;
    s->program.commands = &s->command, s->program.command_count = 1;
    s->program.operands = s->operands, s->program.operand_count = s->command.operand_end;
    s->program.values = s->values, s->program.buffers = s->buffers;
    s->program.parameters = s->parameters;
    const struct remat_device_params params = {.threads = 1};
    if (remat_cpu_device.create(ctx, &s->program, &params, &cpu) ||
        remat_cpu_device.bind(cpu, NULL) ||
        remat_cuda_emit(ctx, &arena, &s->program, &REMAT_CUDA_DEFAULTS, &s->code)) {
        fprintf(stderr, "FAILED %s\n", remat_context_message(ctx));
        exit(1);
    }
    char *text = kernels_text(&s->code), *memory = aligned_alloc(REMAT_ALIGNMENT, bytes);
    char *initial = malloc(bytes);
    void *library = kernels_compile(compiler, text);
    struct emulator *emulator = emulator_create(memory, bytes);
    for (uint32_t k = 0; k < s->code.kernel_count; k++)
        kernels[k] = kernels_find(library, s->code.kernels[k].symbol);
    fill(s, initial);
    memcpy(cpu->memory, initial, bytes);
    remat_cpu_device.begin(cpu);
    remat_status st = remat_cpu_device.execute(cpu, 0);
    for (uint64_t order = 0; order < 3; order++) {
        memcpy(memory, initial, bytes);
        const char *fault =
            kernels_run(emulator, &s->program, &s->code, kernels, 0, memory, memory, order * 5);
        if (st || s->code.launch_count == 0 || fault || memcmp(memory, cpu->memory, bytes) != 0) {
            printf("%s of %lld x %lld, dtype %u: %s\n", s->kernel.key,
                   (long long)s->operands[0].shape[0], (long long)s->operands[0].shape[1],
                   s->operands[0].dtype, fault ? fault : "differs");
            failures++;
            break;
        }
    }
    remat_cpu_device.end(cpu);
    remat_cpu_device.destroy(&cpu);
    emulator_destroy(&emulator);
    kernels_close(library);
    free(text);
    free(memory);
    free(initial);
    remat_arena_release(&arena);
}

static void test_embedding(remat_context *ctx, const char *compiler, int64_t tokens, int64_t rows,
                           int64_t columns, remat_dtype dtype)
{
    struct single *s = begin(REMAT_KERNEL_embedding);
    s->ids_below = (uint32_t)rows;
    add_operand(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns}, false);
    add_operand(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
    add_operand(s, REMAT_ACCESS_WRITE, dtype, 2, (int64_t[]){tokens, columns}, false);
    run(ctx, compiler, s);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        s = begin(REMAT_KERNEL_embedding_backward);
        s->ids_below = (uint32_t)rows;
        s->parameters[0] = accumulate;
        add_operand(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){tokens, columns}, false);
        add_operand(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
        add_operand(s, REMAT_ACCESS_UPDATE, dtype, 2, (int64_t[]){rows, columns}, false);
        run(ctx, compiler, s);
    }
}

static void test_copies(remat_context *ctx, const char *compiler, int64_t rows, int64_t columns,
                        remat_dtype dtype)
{
    const int64_t shape[] = {rows, columns}, wide[] = {rows, 2 * columns + 3};
    struct single *s = begin(REMAT_KERNEL_copy);
    add_operand(s, REMAT_ACCESS_READ, dtype, 2, shape, true);
    add_operand(s, REMAT_ACCESS_WRITE, dtype, 2, shape, false);
    run(ctx, compiler, s);
    s = begin(REMAT_KERNEL_pad);
    s->parameters[0] = 1;
    s->parameters[1] = 2;
    add_operand(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    add_operand(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    run(ctx, compiler, s);
    s = begin(REMAT_KERNEL_concat);
    s->parameters[0] = 1;
    add_operand(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    add_operand(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns + 3}, false);
    add_operand(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    run(ctx, compiler, s);
}

int main(int argc, char **argv)
{
    static const int64_t tokens[] = {1, 37, 300}, columns[] = {1, 6, 64, 1031};
    (void)argc;
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (uint32_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
            remat_dtype dtype = (c + t) % 2 ? REMAT_BF16 : REMAT_F32;
            test_embedding(ctx, argv[1], tokens[t], 1 + tokens[t] / 3, columns[c], dtype);
            test_copies(ctx, argv[1], tokens[t], columns[c], dtype);
        }
    remat_context_destroy(&ctx);
    printf("%u failures\n", failures);
    return failures != 0;
}
