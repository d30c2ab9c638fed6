/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier against broken commands of every built-in kernel: one command, each operand in a
 * buffer of its own. */
#include "check.h"
#include "program.h"

#include <math.h>
#include <program.h>
#include <stdlib.h>

enum { OPERANDS = 12 };

struct named {
    struct remat_program program;
    struct remat_buffer buffers[OPERANDS];
    struct remat_program_value values[OPERANDS];
    struct remat_operand operands[OPERANDS];
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_segment segment;
    struct remat_tensor tensor;
    struct remat_mesh_axis mesh;
    double parameters[8];
};

/* Operands as "r2,3": access (r, w, u), f32, or "ri4": i32; parameters. */
static const struct sample {
    uint32_t kind;
    const char *operands[OPERANDS];
    double parameters[7];
} samples[] = {
    {REMAT_KERNEL_matmul, {"r2,4", "r4,3", "w2,3"}, {0}},
    {REMAT_KERNEL_attention,
     {"r2,3,4,5", "r2,3,2,5", "r2,3,2,5", "w2,3,4,5", "w2,4,3", "ri4", "ri2,3", "ri2,3"},
     {1, 1, 0.1, 7}},
    {REMAT_KERNEL_attention_backward,
     {"r2,3,4,5", "r2,3,4,5", "r2,3,2,5", "r2,3,2,5", "r2,3,4,5", "r2,4,3", "w2,3,4,5", "w2,3,2,5",
      "w2,3,2,5", "ri4", "ri2,3", "ri2,3"},
     {1, 1, 0.1, 7}},
    {REMAT_KERNEL_embedding, {"r7,4", "ri3", "w3,4"}, {0}},
    {REMAT_KERNEL_embedding_backward, {"r3,4", "ri3", "w7,4"}, {0}},
    {REMAT_KERNEL_adamw_coefficients, {"r1", "ri1", "w4"}, {0.9, 0.99, 0.01}},
    {REMAT_KERNEL_copy, {"r2,3", "w2,3"}, {0}},
    {REMAT_KERNEL_concat, {"r2,3", "r2,4", "w2,7"}, {1}},
    {REMAT_KERNEL_pad, {"r2,3", "w2,5"}, {1, 2}},
    {REMAT_KERNEL_batch_slice, {"r4,3", "ri1", "w2,3"}, {0}},
    {REMAT_KERNEL_advance, {"ui1"}, {4}},
    {REMAT_KERNEL_part_number, {"ri1", "ri1", "wi1"}, {4}},
    {REMAT_KERNEL_exchange, {"r3,5", "w4,4"}, {0}},
    {REMAT_KERNEL_gather, {"r4", "w3,5"}, {0}},
    {REMAT_KERNEL_fill, {"w2,3"}, {0.5}},
    {REMAT_KERNEL_rope_table, {"w3,2,2,4"}, {10000, 1, 1, 4, 8}},
    {REMAT_KERNEL_fill_normal, {"w2,3"}, {0, 1, 2, 3}},
    {REMAT_KERNEL_fill_normal_part, {"w2,3", "ri1", "ri1"}, {0, 1, 2, 3, 4, 4, 4}},
    {REMAT_KERNEL_own_ids, {"ri2,3", "ri1", "wi2,3"}, {4}},
};
enum { SAMPLE_COUNT = sizeof samples / sizeof *samples };

static remat_context *ctx;

static void add_operand(struct named *n, uint32_t k, const char *text)
{
    static const char *const names[] = {"0", "1", "2", "3", "4",  "5",
                                        "6", "7", "8", "9", "10", "11"};
    struct remat_operand *o = &n->operands[k];
    struct remat_program_value *v = &n->values[k];
    uint8_t access = *text == 'r'   ? REMAT_ACCESS_READ
                     : *text == 'w' ? REMAT_ACCESS_WRITE
                                    : REMAT_ACCESS_UPDATE;
    bool integer = text[1] == 'i';
    *o = (struct remat_operand){.value = k,
                                .previous = REMAT_NONE,
                                .access = access,
                                .dtype = integer ? REMAT_I32 : REMAT_F32};
    for (text += 1 + integer; *text; text += *text == ',')
        o->shape[o->rank++] = strtol(text, (char **)&text, 10);
    uint64_t elements = 1;
    for (uint32_t d = o->rank; d-- > 0; elements *= (uint64_t)o->shape[d])
        o->strides[d] = (int64_t)elements;
    *v = (struct remat_program_value){.name = names[k],
                                      .scope = "",
                                      .layer = -1,
                                      .dtype = o->dtype,
                                      .rank = o->rank,
                                      .bytes = 4 * elements,
                                      .buffer = k};
    memcpy(v->shape, o->shape, sizeof v->shape);
    n->buffers[k] = (struct remat_buffer){1024 * (uint64_t)k, 1024, 0, 1, false};
    if (access == REMAT_ACCESS_UPDATE) { /* of the value after it, in the same buffer */
        n->values[k + 1] = *v;
        o->previous = k + 1;
        n->program.value_count++;
    }
    n->program.touched_bytes = n->buffers[k].offset_bytes + n->buffers[k].bytes;
}

/* Four ranks, whose coordinate lies before the operands. */
static void add_mesh(struct named *n, uint32_t operands)
{
    struct remat_program *p = &n->program;
    for (uint32_t k = 0; k < operands; k++)
        n->buffers[k].offset_bytes += 1024;
    n->buffers[operands] = (struct remat_buffer){0, 1024, 0, 1, true};
    n->values[operands] = (struct remat_program_value){.name = "rank",
                                                       .scope = "",
                                                       .layer = -1,
                                                       .dtype = REMAT_I32,
                                                       .rank = 1,
                                                       .shape = {1},
                                                       .bytes = 4,
                                                       .buffer = operands};
    n->tensor = (struct remat_tensor){.name = "rank", .value = operands};
    n->mesh = (struct remat_mesh_axis){"dp", 4, 0};
    p->buffer_count++;
    p->value_count++;
    p->tensor_count = p->mesh_count = 1;
    p->tensors = &n->tensor;
    p->mesh = &n->mesh;
    p->static_bytes = 1024;
    p->touched_bytes += 1024;
}

static void make(struct named *n, const struct sample *sample)
{
    uint32_t least, most, parameters, count = 0;
    memset(n, 0, sizeof *n);
    for (; count < OPERANDS && sample->operands[count]; count++)
        add_operand(n, count, sample->operands[count]);
    remat_kernel_kind_arity(sample->kind, &least, &most, &parameters);
    memcpy(n->parameters, sample->parameters, sizeof sample->parameters);
    n->kernel = (struct remat_kernel){.kind = sample->kind, .key = "key"};
    n->command = (struct remat_command){
        .operand_end = count, .parameter_end = parameters, .name = "c", .scope = ""};
    n->segment = (struct remat_segment){"train", 0, 1};
    struct remat_program *p = &n->program;
    p->producer = p->graph_name = p->target = p->policy = "";
    p->number_tensor = REMAT_NONE;
    p->arena_bytes = 1024 * OPERANDS;
    p->buffer_count = p->operand_count = count;
    p->value_count += count;
    p->kernel_count = p->command_count = p->segment_count = 1;
    p->parameter_count = 8;
    p->buffers = n->buffers;
    p->values = n->values;
    p->operands = n->operands;
    p->kernels = &n->kernel;
    p->commands = &n->command;
    p->segments = &n->segment;
    p->parameters = n->parameters;
    if (!remat_kernel_kind_is_transfer(sample->kind))
        return;
    n->command.complete_before = 1;
    add_mesh(n, count);
}

static void dtype(struct named *n, uint32_t operand, remat_dtype dtype)
{
    n->operands[operand].dtype = n->values[operand].dtype = (uint8_t)dtype;
    n->values[operand].bytes = n->values[operand].bytes / 4 * remat_dtype_bytes(dtype);
}

/* A matmul's operands, with an axis of two before the others. */
static void batched(struct remat_operand *o)
{
    for (uint32_t k = 0; k < 3; k++) {
        o[k].shape[2] = o[k].shape[1];
        o[k].shape[1] = o[k].shape[0];
        o[k].strides[2] = o[k].strides[1];
        o[k].strides[1] = o[k].strides[0];
        o[k].strides[0] = o[k].shape[1] * o[k].strides[1];
        o[k].shape[0] = 2;
        o[k].rank = 3;
    }
}

static void double_strides(struct remat_operand *o)
{
    for (uint32_t d = 0; d < o->rank; d++)
        o->strides[d] *= 2;
}

/* 2^14 queries see 2^50 keys, all of them the first one again. */
static void endless(struct named *n)
{
    enum { QUERIES = 1 << 14 };
    for (uint32_t k = 0; k < 5; k++) {
        struct remat_operand *o = &n->operands[k];
        bool keys = k == 1 || k == 2;
        o->shape[0] = o->shape[1] = o->shape[2] = o->shape[3] = 1;
        o->shape[k == 4 ? 2 : 1] = keys ? INT64_C(1) << 50 : QUERIES;
        o->strides[k == 4 ? 2 : 1] = keys ? 0 : 1;
        n->buffers[k].offset_bytes = n->program.arena_bytes;
        n->buffers[k].bytes = 4 * QUERIES;
        n->program.arena_bytes += 4 * QUERIES;
    }
    n->program.touched_bytes = n->program.arena_bytes;
}

#define BROKEN(kernel, statement, message)                                                         \
    {                                                                                              \
        struct named broken, *n = &broken;                                                         \
        make(n, find(REMAT_KERNEL_##kernel));                                                      \
        struct remat_operand *o = n->operands;                                                     \
        struct remat_command *c = &n->command;                                                     \
        double *x = n->parameters;                                                                 \
        (void)o, (void)c, (void)x;                                                                 \
        statement;                                                                                 \
        expect(n, message);                                                                        \
    }

static const struct sample *find(uint32_t kind)
{
    uint32_t s = 0;
    while (samples[s].kind != kind)
        s++;
    return &samples[s];
}

static bool listing; /* every message, for rules.py */

static void expect(const struct named *n, const char *message)
{
    CHECK_STATUS(ctx, remat_program_verify(ctx, &n->program), REMAT_ERROR_INVALID, message);
    if (listing)
        printf("%s\n", remat_context_message(ctx));
}

static void test_broken(void)
{
#include "broken_builtin.def"
}

/* Twice the strides of each operand in turn, unless any suit. */
static void test_strides(const struct sample *sample)
{
    const struct remat_kernel_row *row = remat_kernel_row(sample->kind);
    struct named n;
    make(&n, sample);
    for (uint32_t k = 0, count = n.command.operand_end; k < count; k++) {
        make(&n, sample);
        double_strides(&n.operands[k]);
        char layout = row->layouts[remat_kernel_row_letter(row, 0, k, count)];
        if (n.values[k].bytes > 4 && layout != 's')
            CHECK_STATUS(ctx, remat_program_verify(ctx, &n.program), REMAT_ERROR_INVALID,
                         layout == 'p' ? "in is neither contiguous nor a row for each rank"
                                       : "strides of an operand");
    }
}

int main(int argc, char **argv)
{
    listing = argc > 1 && strcmp(argv[1], "messages") == 0;
    MUST(ctx = remat_context_create(NULL, NULL));
    CHECK(SAMPLE_COUNT == REMAT_KERNEL_KIND_COUNT - 1, "a kernel without a sample");
    for (uint32_t s = 0; s < SAMPLE_COUNT; s++) {
        struct named n;
        make(&n, &samples[s]);
        CHECK_OK(ctx, remat_program_verify(ctx, &n.program), "%s",
                 remat_kernel_kind_name(samples[s].kind));
        test_strides(&samples[s]);
    }
    test_broken();
    remat_context_destroy(&ctx);
    return check_exit();
}
