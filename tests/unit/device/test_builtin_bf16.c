/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on bf16 tensors and with random numbers, through verification and the device: named
 * kernels against their definition, bits over threads, and what is refused. */
#include "check.h"
#include "cpu_bf16.h"
#include "device.h"
#include "philox.h"
#include "program.h"

#include <math.h>
#include <stdlib.h>

#define F32  REMAT_F32
#define BF16 REMAT_BF16
#define I32  REMAT_I32

enum { TENSORS = 25, B = 2, H = 2, T = 70, D = 16, V = 50, C = 70, K = 800, TOKENS = B * T };
enum {
    X,
    W,
    Y,
    TABLE,
    IDS,
    ROWS,
    DTABLE,
    COPY,
    JOINED,
    PADDED,
    TENTH,
    NORMAL,
    NORMAL32,
    Q,
    KEYS,
    VALUES,
    OUT,
    LSE,
    DOUT,
    DQ,
    DK,
    DV,
    RNG,
    DROPPED,
    FLAGGED
};

static const struct {
    const char *name;
    remat_dtype dtype;
    uint8_t rank;
    int64_t shape[4];
} tensors[TENSORS] = {
    [X] = {"x", BF16, 2, {T, K}},
    [W] = {"w", BF16, 2, {K, C}},
    [Y] = {"y", BF16, 2, {T, C}},
    [TABLE] = {"table", BF16, 2, {V, C}},
    [IDS] = {"ids", I32, 1, {TOKENS}},
    [ROWS] = {"rows", BF16, 2, {TOKENS, C}},
    [DTABLE] = {"dtable", BF16, 2, {V, C}},
    [COPY] = {"copy", BF16, 2, {C, V}},
    [JOINED] = {"joined", BF16, 2, {V, 2 * C}},
    [PADDED] = {"padded", BF16, 2, {V, C + 9}},
    [TENTH] = {"tenth", BF16, 1, {999}},
    [NORMAL] = {"normal", BF16, 1, {3000}},
    [NORMAL32] = {"normal32", F32, 1, {3000}},
    [Q] = {"q", BF16, 4, {B, T, H, D}},
    [KEYS] = {"k", BF16, 4, {B, T, H, D}},
    [VALUES] = {"v", BF16, 4, {B, T, H, D}},
    [OUT] = {"out", BF16, 4, {B, T, H, D}},
    [LSE] = {"lse", F32, 3, {B, H, T}},
    [DOUT] = {"dout", BF16, 4, {B, T, H, D}},
    [DQ] = {"dq", BF16, 4, {B, T, H, D}},
    [DK] = {"dk", BF16, 4, {B, T, H, D}},
    [DV] = {"dv", BF16, 4, {B, T, H, D}},
    [RNG] = {"rng", I32, 1, {4}},
    [DROPPED] = {"dropped", BF16, 2, {T, C}},
    [FLAGGED] = {"flagged", I32, 1, {1}},
};

static const struct command {
    const char *name;
    uint32_t kind;
    int operands[11], writes; /* how many of the last operands, an rng aside */
    double parameters[4];
    uint32_t parameter_count;
} commands[] = {
    {"matmul", REMAT_KERNEL_matmul, {X, W, Y, -1}, 1, {0}, 0},
    {"embedding", REMAT_KERNEL_embedding, {TABLE, IDS, ROWS, -1}, 1, {0}, 0},
    {"scatter", REMAT_KERNEL_embedding_backward, {ROWS, IDS, DTABLE, -1}, 1, {0}, 1},
    {"copy", REMAT_KERNEL_copy, {TABLE, COPY, -1}, 1, {0}, 0}, /* transposed below */
    {"concat", REMAT_KERNEL_concat, {TABLE, DTABLE, JOINED, -1}, 1, {1}, 1},
    {"pad", REMAT_KERNEL_pad, {TABLE, PADDED, -1}, 1, {1, 4}, 2},
    {"fill", REMAT_KERNEL_fill, {TENTH, -1}, 1, {0.1}, 1},
    {"normal", REMAT_KERNEL_fill_normal, {NORMAL, -1}, 1, {0.5, 2, 7, 9}, 4},
    {"normal32", REMAT_KERNEL_fill_normal, {NORMAL32, -1}, 1, {0.5, 2, 7, 9}, 4},
    {"attention",
     REMAT_KERNEL_attention,
     {Q, KEYS, VALUES, OUT, LSE, RNG, -1},
     2,
     {0.25, 1, 0.1, 3},
     4},
    {"gradient",
     REMAT_KERNEL_attention_backward,
     {DOUT, Q, KEYS, VALUES, OUT, LSE, DQ, DK, DV, RNG, -1},
     3,
     {0.25, 1, 0.1, 3},
     4},
    {"dropped", REMAT_KERNEL_fused, {Y, RNG, DROPPED, FLAGGED, -1}, 2, {0}, 0},
};
enum { COMMANDS = sizeof commands / sizeof *commands, ATTENTION = 9, GRADIENT, PROGRAM };

/* dropped = y * y rounded, + y, times a random number; flagged where it is not finite */
static const struct remat_instruction instructions[] = {
    {.opcode = REMAT_INSTRUCTION_load, .args = {65535, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_mul, .args = {0, 0, 65535}},
    {.opcode = REMAT_INSTRUCTION_round_bf16, .args = {1, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_add, .args = {2, 0, 65535}},
    {.opcode = REMAT_INSTRUCTION_random,
     .operand = 1,
     .immediate = 5,
     .args = {65535, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_mul, .args = {3, 4, 65535}},
    {.opcode = REMAT_INSTRUCTION_store, .operand = 2, .args = {5, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_flag, .operand = 3, .args = {5, 65535, 65535}},
};

struct fixture {
    struct remat_buffer buffers[TENSORS];
    struct remat_program_value values[TENSORS];
    struct remat_operand operands[64];
    struct remat_kernel kernels[COMMANDS];
    struct remat_command commands[COMMANDS];
    double parameters[64];
    struct remat_segment segments[1];
    struct remat_entry entries[1];
    struct remat_call calls[1];
    struct remat_program program;
    char *initial;
};

static uint64_t bytes_of(int tensor)
{
    uint64_t bytes = remat_dtype_bytes(tensors[tensor].dtype);
    for (int k = 0; k < tensors[tensor].rank; k++)
        bytes *= (uint64_t)tensors[tensor].shape[k];
    return bytes;
}

static void add_command(struct fixture *f, uint32_t index)
{
    const struct command *from = &commands[index];
    struct remat_program *p = &f->program;
    struct remat_command *c = &f->commands[index];
    *c = (struct remat_command){.kernel = index, .name = from->name, .scope = "", .layer = -1};
    c->operand_begin = c->operand_end = p->operand_count;
    c->parameter_begin = p->parameter_count;
    c->parameter_end = c->parameter_begin + from->parameter_count;
    memcpy(f->parameters + c->parameter_begin, from->parameters,
           from->parameter_count * sizeof(double));
    int count = 0, rng = 0;
    while (from->operands[count] >= 0)
        rng = from->operands[count++] == RNG && from->kind != REMAT_KERNEL_fused;
    for (int k = 0; k < count; k++) {
        int tensor = from->operands[k];
        struct remat_operand *o = &f->operands[c->operand_end++];
        bool written = k < count - rng && k >= count - rng - from->writes;
        *o = (struct remat_operand){.value = (uint32_t)tensor, .previous = REMAT_NONE};
        o->access = tensor == FLAGGED ? REMAT_ACCESS_FLAG
                    : written         ? REMAT_ACCESS_WRITE
                                      : REMAT_ACCESS_READ;
        o->dtype = (uint8_t)tensors[tensor].dtype;
        o->rank = tensors[tensor].rank;
        int64_t stride = 1;
        for (int a = o->rank; a-- > 0; stride *= o->shape[a]) {
            o->shape[a] = tensors[tensor].shape[a];
            o->strides[a] = stride;
        }
    }
    f->kernels[index] = (struct remat_kernel){.kind = from->kind, .key = from->name};
    if (from->kind == REMAT_KERNEL_fused) {
        f->kernels[index].body = (struct remat_kernel_body){8, instructions, 4};
        c->rank = 2;
        c->space[0] = T;
        c->space[1] = C;
    }
    p->operand_count = c->operand_end;
    p->parameter_count = c->parameter_end;
}

static void make_fixture(struct fixture *f)
{
    *f = (struct fixture){
        .segments = {{"step", 0, COMMANDS}}, .entries = {{"train", 0, 1}}, .calls = {{0, 1, 0}}};
    struct remat_program *p = &f->program;
    for (uint32_t t = 0; t < TENSORS; t++) {
        f->buffers[t] = (struct remat_buffer){.offset_bytes = p->arena_bytes,
                                              .bytes = bytes_of((int)t),
                                              .end = COMMANDS,
                                              .persistent = true};
        p->arena_bytes += remat_align_up(bytes_of((int)t), REMAT_ALIGNMENT);
        f->values[t] = (struct remat_program_value){
            .name = tensors[t].name, .scope = "", .layer = -1, .buffer = t};
        f->values[t].dtype = (uint8_t)tensors[t].dtype;
        f->values[t].rank = tensors[t].rank;
        f->values[t].bytes = bytes_of((int)t);
        memcpy(f->values[t].shape, tensors[t].shape, sizeof tensors[t].shape);
    }
    p->producer = p->graph_name = "hand made";
    p->static_bytes = p->arena_bytes;
    p->touched_bytes = f->buffers[TENSORS - 1].offset_bytes + f->buffers[TENSORS - 1].bytes;
    p->target = "cpu";
    p->policy = "none";
    p->number_tensor = REMAT_NONE;
    p->buffers = f->buffers;
    p->values = f->values;
    p->operands = f->operands;
    p->kernels = f->kernels;
    p->commands = f->commands;
    p->parameters = f->parameters;
    p->segments = f->segments;
    p->entries = f->entries;
    p->calls = f->calls;
    p->buffer_count = p->value_count = TENSORS;
    p->kernel_count = p->command_count = COMMANDS;
    p->segment_count = p->entry_count = p->call_count = 1;
    for (uint32_t c = 0; c < COMMANDS; c++)
        add_command(f, c);
    struct remat_operand *transposed = &f->operands[f->commands[3].operand_begin + 1];
    transposed->shape[0] = V;
    transposed->shape[1] = C;
    transposed->strides[0] = 1;
    transposed->strides[1] = V;
    f->initial = calloc(1, p->arena_bytes);
    for (uint64_t i = 0; i < p->arena_bytes / 2; i++) {
        uint16_t value = cpu_narrow_bf16((float)(i * 7919 % 1013) * 0.002f - 1.0f);
        memcpy(f->initial + 2 * i, &value, 2);
    }
    uint16_t signalling = 0x7f81; /* moved as it is */
    memcpy(f->initial + f->buffers[TABLE].offset_bytes + 2 * (V - 1) * C, &signalling, 2);
    int32_t *ids = (int32_t *)(void *)(f->initial + f->buffers[IDS].offset_bytes);
    for (int t = 0; t < TOKENS; t++)
        ids[t] = t * t % (V - 1);
    static const uint32_t state[4] = {11, 12, 13, 1};
    memcpy(f->initial + f->buffers[RNG].offset_bytes, state, sizeof state);
}

/* --- running --- */

static remat_status run(remat_context *ctx, const struct fixture *f, uint32_t threads, char *memory)
{
    remat_status st = REMAT_OK;
    struct remat_device_params params = {.threads = threads, .seed = 42};
    const struct remat_device_vtable *vtable = remat_device_find("cpu");
    struct remat_device *device = NULL;
    REMAT_TRY(remat_program_verify(ctx, &f->program));
    REMAT_TRY(vtable->create(ctx, &f->program, &params, &device));
    REMAT_TRY(vtable->bind(device, NULL));
    REMAT_TRY(vtable->write(device, 0, f->initial, f->program.arena_bytes));
    REMAT_TRY(vtable->begin(device));
    for (uint32_t c = 0; c < COMMANDS && !st; c++)
        st = vtable->execute(device, c);
    st = st ? st : vtable->end(device);
    st = st ? st : vtable->read(device, 0, memory, f->program.arena_bytes);
fail:
    vtable->destroy(&device);
    return st;
}

static const void *tensor_of(const struct fixture *f, const char *memory, int tensor)
{
    return memory + f->buffers[tensor].offset_bytes;
}

/* --- values --- */

static void check_matmul(const struct fixture *f, const char *memory)
{
    const uint16_t *x = tensor_of(f, memory, X), *w = tensor_of(f, memory, W);
    const uint16_t *y = tensor_of(f, memory, Y);
    int wrong = 0;
    for (int i = 0; i < T; i++)
        for (int j = 0; j < C; j++) {
            float sum = 0.0f;
            for (int block = 0; block < K; block += 384) {
                float chain = 0.0f;
                for (int k = block; k < K && k < block + 384; k++)
                    chain = fmaf(cpu_widen_bf16(x[i * K + k]), cpu_widen_bf16(w[k * C + j]), chain);
                sum = block ? sum + chain : chain;
            }
            wrong += y[i * C + j] != cpu_narrow_bf16(sum);
        }
    CHECK(wrong == 0, "%d", wrong);
}

static void check_embedding(const struct fixture *f, const char *memory)
{
    const uint16_t *table = tensor_of(f, memory, TABLE), *rows = tensor_of(f, memory, ROWS);
    const uint16_t *gradient = tensor_of(f, memory, DTABLE);
    const int32_t *ids = tensor_of(f, memory, IDS);
    float sums[V * C] = {0};
    int wrong = 0;
    for (int t = 0; t < TOKENS; t++) {
        wrong += memcmp(rows + t * C, table + ids[t] * C, 2 * C) != 0;
        for (int j = 0; j < C; j++)
            sums[ids[t] * C + j] += cpu_widen_bf16(rows[t * C + j]);
    }
    for (int e = 0; e < V * C; e++)
        wrong += gradient[e] != cpu_narrow_bf16(sums[e]);
    CHECK(wrong == 0, "%d", wrong);
}

static void check_moves(const struct fixture *f, const char *memory)
{
    const uint16_t *table = tensor_of(f, memory, TABLE), *copy = tensor_of(f, memory, COPY);
    const uint16_t *gradient = tensor_of(f, memory, DTABLE), *joined = tensor_of(f, memory, JOINED);
    const uint16_t *padded = tensor_of(f, memory, PADDED);
    int wrong = 0;
    for (int v = 0; v < V; v++)
        for (int c = 0; c < C + 9; c++) {
            bool inside = c >= 4 && c < C + 4;
            wrong += padded[v * (C + 9) + c] != (inside ? table[v * C + c - 4] : 0);
            if (c < C)
                wrong += copy[c * V + v] != table[v * C + c] ||
                         joined[v * 2 * C + c] != table[v * C + c] ||
                         joined[v * 2 * C + C + c] != gradient[v * C + c];
        }
    CHECK(wrong == 0 && table[(V - 1) * C] == 0x7f81, "%d", wrong);
}

static void check_fills(const struct fixture *f, const char *memory)
{
    const uint16_t *tenth = tensor_of(f, memory, TENTH), *normal = tensor_of(f, memory, NORMAL);
    const float *normal32 = tensor_of(f, memory, NORMAL32);
    int wrong = 0;
    for (int i = 0; i < 999; i++)
        wrong += tenth[i] != cpu_narrow_bf16(0.1f);
    for (int i = 0; i < 3000; i++)
        wrong += normal[i] != cpu_narrow_bf16(normal32[i]);
    CHECK(wrong == 0, "%d", wrong);
}

static void check_dropped(const struct fixture *f, const char *memory)
{
    const uint16_t *y = tensor_of(f, memory, Y), *dropped = tensor_of(f, memory, DROPPED);
    const uint32_t key[2] = {11, 12};
    int wrong = 0;
    for (uint32_t i = 0; i < T * C; i++) {
        uint32_t index = i + T * C, counter[4] = {index / 4, 0, 5, 13}, words[4];
        philox(counter, key, words);
        float uniform = (float)(words[index % 4] >> 8) / 16777216.0f, x = cpu_widen_bf16(y[i]);
        float sum = cpu_round_bf16(x * x) + x;
        wrong += dropped[i] != cpu_narrow_bf16(sum * uniform);
    }
    CHECK(wrong == 0, "%d", wrong);
}

static void test_values(remat_context *ctx, const struct fixture *f)
{
    char *one = malloc(f->program.arena_bytes), *other = malloc(f->program.arena_bytes);
    CHECK_OK(ctx, run(ctx, f, 1, one));
    check_matmul(f, one);
    check_embedding(f, one);
    check_moves(f, one);
    check_fills(f, one);
    check_dropped(f, one);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        CHECK_OK(ctx, run(ctx, f, threads, other));
        CHECK(memcmp(one, other, f->program.arena_bytes) == 0, "%u threads", threads);
    }
    free(one);
    free(other);
}

/* --- what is refused --- */

static void refuse(remat_context *ctx, const struct fixture *f, const char *message)
{
    CHECK_STATUS(ctx, remat_program_verify(ctx, &f->program), REMAT_ERROR_INVALID, message);
}

static void test_parameters(remat_context *ctx, struct fixture *f)
{
    static const struct {
        int parameter;
        double value;
    } bad[] = {{1, 2}, {2, -0.1}, {2, 1}, {2, (double)NAN}, {3, 0.5}, {3, REMAT_SITES}, {3, -1}};
    for (uint32_t c = ATTENTION; c <= GRADIENT; c++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            double *at =
                &f->parameters[f->commands[c].parameter_begin + (uint32_t)bad[i].parameter];
            double good = *at;
            *at = bad[i].value;
            refuse(ctx, f, "parameters causal, p or site");
            *at = good;
        }
}

static void test_states(remat_context *ctx, struct fixture *f)
{
    for (uint32_t c = ATTENTION; c <= PROGRAM; c++) {
        struct remat_command *command = &f->commands[c];
        struct remat_operand *rng =
            &f->operands[c == PROGRAM ? command->operand_begin + 1 : command->operand_end - 1];
        const struct remat_operand good = *rng;
        rng->offset_elements = 1;
        rng->shape[0] = 3;
        refuse(ctx, f, "has no four elements of random state");
        *rng = good;
        *rng = f->operands[0];
        refuse(ctx, f, "the random state is read and i32");
        *rng = good;
        rng->access = REMAT_ACCESS_WRITE;
        refuse(ctx, f, "the random state is read and i32");
        *rng = good;
        if (c == PROGRAM)
            continue;
        command->operand_end--;
        refuse(ctx, f, "dropout without a random state");
        double *p = &f->parameters[command->parameter_begin + 2], before = *p;
        *p = 0.0;
        CHECK_OK(ctx, remat_program_verify(ctx, &f->program));
        *p = before;
        command->operand_end++;
    }
}

static void test_flag(remat_context *ctx, struct fixture *f)
{
    static const struct remat_instruction load = {
        .opcode = REMAT_INSTRUCTION_load, .operand = 3, .args = {65535, 65535, 65535}};
    struct remat_operand *operands = &f->operands[f->commands[PROGRAM].operand_begin];
    const struct remat_operand input = operands[0], flag = operands[3];
    struct remat_instruction changed[8];
    operands[3].access = REMAT_ACCESS_READ;
    refuse(ctx, f, "operand 3: a flag is i32, with an access of its own");
    operands[3].access = 4;
    refuse(ctx, f, "operand 3: unknown access 4");
    operands[3] = input;
    operands[3].access = REMAT_ACCESS_FLAG;
    refuse(ctx, f, "operand 3: a flag is i32, with an access of its own");
    operands[3] = flag;
    operands[3].offset_elements = 1;
    refuse(ctx, f, "operand 3: its view leads out of buffer");
    operands[3] = flag;
    operands[0].access = REMAT_ACCESS_FLAG;
    refuse(ctx, f, "operand 0: a flag is i32, with an access of its own");
    operands[0] = input;
    memcpy(changed, instructions, sizeof changed);
    changed[1] = load;
    f->kernels[PROGRAM].body.instructions = changed;
    refuse(ctx, f, "operand 3: a flag and used in another way");
    f->kernels[PROGRAM].body.instructions = instructions;
}

static void set_dtype(struct fixture *f, int tensor, remat_dtype dtype)
{
    f->values[tensor].dtype = (uint8_t)dtype;
    for (uint32_t o = 0; o < f->program.operand_count; o++)
        if (f->operands[o].value == (uint32_t)tensor)
            f->operands[o].dtype = (uint8_t)dtype;
}

/* One operand of another dtype. */
static void test_dtypes(remat_context *ctx, struct fixture *f)
{
    static const int bad[] = {W, ROWS, PADDED, VALUES, DK};
    for (size_t i = 0; i < sizeof bad / sizeof(int); i++) {
        set_dtype(f, bad[i], REMAT_F16);
        refuse(ctx, f, "dtype or access of an operand");
        set_dtype(f, bad[i], REMAT_BF16);
    }
}

int main(void)
{
    static struct fixture f;
    make_fixture(&f);
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_values(ctx, &f);
    test_parameters(ctx, &f);
    test_states(ctx, &f);
    test_flag(ctx, &f);
    test_dtypes(ctx, &f);
    remat_context_destroy(&ctx);
    free(f.initial);
    return check_exit();
}
