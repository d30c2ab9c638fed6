/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions over a small program made by hand: a linear layer whose weight is drawn at init, a loss,
 * and AdamW's coefficients; plus errors, the trace and memory. */
#include "borrowed_plan.h"
#include "check.h"
#include "session_testing.h"

#include <math.h>
#include <stdlib.h>

#define M 5
#define K 900
#define N 70

enum { X, W, IDS, LR, STEP, COEFFICIENTS, ROWS, Y, LOSS, SCALE, BUFFERS };

static const struct {
    const char *name;
    int64_t rows, columns;
    uint8_t dtype, role;
    uint32_t begin, end; /* 0, 0: persistent */
} tensors[BUFFERS] = {
    [X] = {"x", M, K, REMAT_F32, REMAT_ROLE_INPUT, 0, 0},
    [W] = {"w", K, N, REMAT_F32, REMAT_ROLE_PARAMETER, 0, 0},
    [IDS] = {"ids", 1, M, REMAT_I32, REMAT_ROLE_INPUT, 0, 0},
    [LR] = {"lr", 1, 1, REMAT_F32, REMAT_ROLE_INPUT, 0, 0},
    [STEP] = {"step", 1, 1, REMAT_I32, REMAT_ROLE_INPUT, 0, 0},
    [COEFFICIENTS] = {"coefficients", 1, 4, REMAT_F32, REMAT_ROLE_OUTPUT, 0, 0},
    [ROWS] = {"rows", M, N, REMAT_F32, REMAT_ROLE_OUTPUT, 0, 0},
    [Y] = {"y", M, N, REMAT_F32, REMAT_ROLE_ACTIVATION, 1, 3},
    [LOSS] = {"loss", M, 1, REMAT_F32, REMAT_ROLE_OUTPUT, 0, 0},
    [SCALE] = {"scale", 1, 1, REMAT_F32, REMAT_ROLE_PARAMETER, 0, 0},
};

static const struct remat_instruction loss_instructions[] = {
    {.opcode = REMAT_INSTRUCTION_load, .operand = 0, .args = {65535, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_mul, .args = {0, 0, 65535}},
    {.opcode = REMAT_INSTRUCTION_add, .args = {0, 1, 65535}},
    {.opcode = REMAT_INSTRUCTION_row_sum, .args = {2, 65535, 65535}},
    {.opcode = REMAT_INSTRUCTION_store, .operand = 1, .args = {3, 65535, 65535}},
};

struct fixture {
    struct remat_buffer buffers[BUFFERS];
    struct remat_program_value values[BUFFERS];
    struct remat_tensor list[BUFFERS];
    struct remat_operand operands[32];
    struct remat_kernel kernels[8];
    struct remat_command commands[8];
    double parameters[16];
    struct remat_segment segments[2];
    struct remat_entry entries[2];
    struct remat_call calls[2];
    struct remat_program program;
};

static void add_operand(struct fixture *f, struct remat_command *command, uint32_t value,
                        uint8_t access, uint8_t rank)
{
    struct remat_operand *operand = &f->operands[command->operand_end++];
    *operand = (struct remat_operand){.value = value, .previous = REMAT_NONE, .access = access};
    operand->dtype = tensors[value].dtype;
    operand->rank = rank;
    if (rank == 1) {
        operand->shape[0] = tensors[value].rows * tensors[value].columns;
        operand->strides[0] = 1;
        return;
    }
    operand->shape[0] = tensors[value].rows;
    operand->shape[1] = tensors[value].columns;
    operand->strides[0] = tensors[value].columns;
    operand->strides[1] = 1;
}

static struct remat_command *add_command(struct fixture *f, const char *name, uint32_t kind)
{
    struct remat_program *p = &f->program;
    const struct remat_command *last =
        p->command_count ? &f->commands[p->command_count - 1] : &(struct remat_command){0};
    struct remat_command *command = &f->commands[p->command_count];
    *command = (struct remat_command){.kernel = p->kernel_count, .name = name, .scope = ""};
    command->operand_begin = command->operand_end = last->operand_end;
    command->parameter_begin = command->parameter_end = last->parameter_end;
    f->kernels[p->kernel_count++] = (struct remat_kernel){.kind = kind, .key = name};
    p->command_count++;
    return command;
}

static void make_commands(struct fixture *f)
{
    const uint8_t read = REMAT_ACCESS_READ, write = REMAT_ACCESS_WRITE;
    struct remat_command *c = add_command(f, "w", REMAT_KERNEL_fill_normal);
    add_operand(f, c, W, write, 2);
    double normal[] = {0.0, 0.02, 77.0, 5.0};
    memcpy(&f->parameters[c->parameter_end], normal, sizeof normal);
    c->parameter_end += 4;
    c = add_command(f, "y", REMAT_KERNEL_matmul);
    add_operand(f, c, X, read, 2);
    add_operand(f, c, W, read, 2);
    add_operand(f, c, Y, write, 2);
    c = add_command(f, "loss", REMAT_KERNEL_fused);
    f->kernels[c->kernel].body = (struct remat_kernel_body){5, loss_instructions, 2};
    add_operand(f, c, Y, read, 2);
    add_operand(f, c, LOSS, write, 2);
    f->operands[c->operand_end - 1].strides[1] = 0;
    c->rank = 2;
    c->space[0] = M;
    c->space[1] = N;
    c = add_command(f, "rows", REMAT_KERNEL_embedding);
    add_operand(f, c, W, read, 2);
    add_operand(f, c, IDS, read, 1);
    add_operand(f, c, ROWS, write, 2);
    c = add_command(f, "coefficients", REMAT_KERNEL_adamw_coefficients);
    add_operand(f, c, LR, read, 1);
    add_operand(f, c, STEP, read, 1);
    add_operand(f, c, COEFFICIENTS, write, 1);
    double adamw[] = {0.9, 0.999, 0.1};
    memcpy(&f->parameters[c->parameter_end], adamw, sizeof adamw);
    c->parameter_end += 3;
}

static void make_fixture(struct fixture *f)
{
    *f = (struct fixture){.segments = {{"init", 0, 1}, {"step", 1, 5}},
                          .entries = {{"init", 0, 1}, {"train", 1, 2}},
                          .calls = {{0, 1, 0}, {1, 1, 0}}};
    struct remat_program *p = &f->program;
    for (uint32_t b = 0; b < BUFFERS; b++) {
        uint64_t bytes = (uint64_t)(tensors[b].rows * tensors[b].columns) * 4;
        f->buffers[b] = (struct remat_buffer){.offset_bytes = p->arena_bytes, .bytes = bytes};
        f->buffers[b].begin = tensors[b].begin;
        f->buffers[b].end = tensors[b].end;
        f->buffers[b].persistent = tensors[b].end == 0;
        p->arena_bytes += remat_align_up(bytes, REMAT_ALIGNMENT);
        f->values[b] = (struct remat_program_value){
            .name = tensors[b].name, .scope = "", .layer = -1, .dtype = tensors[b].dtype};
        f->values[b].role = tensors[b].role;
        f->values[b].rank = 2;
        f->values[b].shape[0] = tensors[b].rows;
        f->values[b].shape[1] = tensors[b].columns;
        f->values[b].bytes = bytes;
        f->values[b].buffer = b;
        f->list[b] = (struct remat_tensor){.name = tensors[b].name, .value = b};
    }
    p->graph_name = "hand made";
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
    p->tensors = f->list;
    p->buffer_count = p->value_count = p->tensor_count = BUFFERS;
    p->segment_count = p->entry_count = p->call_count = 2;
    make_commands(f);
    p->operand_count = f->commands[p->command_count - 1].operand_end;
    p->parameter_count = f->commands[p->command_count - 1].parameter_end;
}

static remat_status write_inputs(remat_session *session, int32_t id, int32_t step)
{
    remat_status st = REMAT_OK;
    float x[M * K], lr = 0.25f;
    int32_t ids[M] = {0, id, 2, K - 1, 2};
    for (int i = 0; i < M * K; i++)
        x[i] = (float)(i * 37 % 101) * 0.01f - 0.5f;
    REMAT_TRY(remat_session_write(session, "x", x, sizeof x));
    REMAT_TRY(remat_session_write(session, "ids", ids, sizeof ids));
    REMAT_TRY(remat_session_write(session, "lr", &lr, sizeof lr));
    REMAT_TRY(remat_session_write(session, "step", &step, sizeof step));
fail:
    return st;
}

struct result {
    float w[K * N], loss[M];
};

/* Runs init and train. */
static void run_once(remat_context *ctx, const struct remat_plan *plan, uint32_t threads,
                     struct result *result)
{
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = threads;
    params.seed = 42;
    remat_session *session;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK(remat_session_threads(session) == threads, "%u, not %u", remat_session_threads(session),
          threads);
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, write_inputs(session, 1, 1));
    CHECK_OK(ctx, remat_session_run(session, "train"));
    CHECK_OK(ctx, remat_session_read(session, "w", result->w, sizeof result->w));
    CHECK_OK(ctx, remat_session_read(session, "loss", result->loss, sizeof result->loss));
    remat_session_destroy(&session);
    CHECK(!session);
}

static void test_bits(remat_context *ctx, const struct remat_plan *plan)
{
    static struct result one, two;
    run_once(ctx, plan, 1, &one);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        run_once(ctx, plan, threads, &two);
        CHECK(memcmp(&one, &two, sizeof one) == 0, "%u threads", threads);
    }
    double expected = 0.0;
    for (int j = 0; j < N; j++) {
        double y = 0.0;
        for (int k = 0; k < K; k++)
            y += ((double)(k * 37 % 101) * 0.01 - 0.5) * (double)one.w[k * N + j];
        expected += y + y * y;
    }
    CHECK(fabs(expected - (double)one.loss[0]) < 1e-4, "%g, expected %g", (double)one.loss[0],
          expected);
}

/* --- trace --- */

static int count_events(void *user, const remat_trace_event *event)
{
    int *count = user;
    CHECK(event->struct_size == sizeof *event && event->value_count == 1, "%u values",
          event->value_count);
    if (strcmp(event->name, "loss") == 0) {
        CHECK(event->values[0].role == REMAT_TENSOR_OUTPUT, "%d", (int)event->values[0].role);
        CHECK(event->values[0].bytes == M * sizeof(float), "%llu",
              (unsigned long long)event->values[0].bytes);
        CHECK(strcmp(event->kernel, "loss") == 0, "%s", event->kernel);
        CHECK(((const float *)event->values[0].data)[0] != 0.0f);
    }
    return ++*count == 100;
}

static void test_trace(remat_context *ctx, const struct remat_plan *plan)
{
    int count = 0;
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 1;
    params.trace = count_events;
    params.trace_user = &count;
    remat_session *session;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, write_inputs(session, 1, 1));
    CHECK_OK(ctx, remat_session_run(session, "train"));
    CHECK(count == 5, "%d", count);
    count = 98;
    CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_OTHER,
                 "stopped by the trace callback at command \"loss\"");
    remat_session_set_trace(session, NULL, NULL);
    CHECK_OK(ctx, remat_session_run(session, "train"));
    CHECK(count == 100, "%d", count);
    float got[4];
    CHECK_OK(ctx, remat_session_read(session, "coefficients", got, sizeof got));
    CHECK(fabsf(got[0] - 0.975f) < 1e-6f && fabsf(got[1] - 2.5f) < 1e-5f &&
              fabsf(got[2] - sqrtf(0.001f)) < 1e-7f && got[3] == 1,
          "%g %g %g %g", (double)got[0], (double)got[1], (double)got[2], (double)got[3]);
    remat_session_destroy(&session);
}

/* --- scripts --- */

struct order {
    uint32_t commands[32], count, stop_at;
};

static int record_order(void *user, const remat_trace_event *event)
{
    struct order *order = user;
    if (order->count < 32)
        order->commands[order->count++] = event->command;
    return order->count == order->stop_at;
}

/* An entry point runs its calls in order, each as often as it says. */
static void test_script(remat_context *ctx, const struct remat_plan *plan)
{
    struct remat_program *program = plan->program;
    const struct remat_segment init = program->segments[0], step = program->segments[1];
    const struct remat_entry train = program->entries[1];
    struct order order = {.stop_at = 0};
    uint32_t expected = 0;
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 1;
    params.trace = record_order;
    params.trace_user = &order;
    remat_session *session;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK_OK(ctx, write_inputs(session, 1, 1));
    program->entries[1].call_begin = 0;
    program->calls[1].times = 3;
    CHECK_OK(ctx, remat_session_run(session, "train"));
    for (uint32_t c = init.command_begin; c < init.command_end; c++)
        CHECK(order.commands[expected++] == c);
    for (int times = 0; times < 3; times++)
        for (uint32_t c = step.command_begin; c < step.command_end; c++)
            CHECK(order.commands[expected++] == c);
    CHECK(order.count == expected, "%d, not %d", order.count, expected);
    order = (struct order){.stop_at = 8}; /* amid the second repetition */
    CHECK(remat_session_run(session, "train") == REMAT_ERROR_OTHER && order.count == 8);
    program->entries[1] = train;
    program->calls[1].times = 1;
    remat_session_destroy(&session);
}

/* --- errors --- */

/* Too many take no memory: the host's allocator is not asked for a scratch of each. */
static void test_threads(remat_context *ctx, const struct remat_plan *plan)
{
    remat_session_params params;
    remat_session *session;
    uint64_t bytes;
    remat_session_params_init(&params);
    params.device = "cpu";
    for (params.threads = 1025; params.threads; params.threads *= 2) {
        CHECK_STATUS(ctx, remat_session_memory_bytes(ctx, plan, &params, &bytes), REMAT_ERROR_USAGE,
                     " threads (accepted: 1 to 1024)");
        CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_USAGE,
                     " threads (accepted: 1 to 1024)");
    }
    params.threads = 1024;
    CHECK_OK(ctx, remat_session_memory_bytes(ctx, plan, &params, &bytes));
}

static void test_errors(remat_context *ctx, const struct remat_plan *plan)
{
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 2;
    remat_session *session;
    params.device = "abacus";
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_USAGE,
                 "unknown device \"abacus\"");
    CHECK(!session);
    params.device = "cpu";
    test_threads(ctx, plan);
    plan->program->plan_only = "rope_type is \"yarn\"";
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_PLAN_ONLY,
                 "leaves out a part of its model, rope_type is \"yarn\"");
    CHECK(!session);
    plan->program->plan_only = "";
    plan->program->budget_bytes = 1;
    plan->program->reserve_bytes = 50u << 20;
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_INFEASIBLE,
                 "2 threads need");
    CHECK(strstr(remat_context_message(ctx), "--reserve"), "%s", remat_context_message(ctx));
    plan->program->reserve_bytes = 53u << 20; /* enough for one */
    params.threads = 0;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK(remat_session_threads(session) == 1, "%u", remat_session_threads(session));
    plan->program->budget_bytes = 0;
    float value = 0.0f;
    CHECK_STATUS(ctx, remat_session_run(session, "eval"), REMAT_ERROR_USAGE,
                 "no entry point \"eval\"");
    CHECK_STATUS(ctx, remat_session_write(session, "z", &value, 4), REMAT_ERROR_USAGE,
                 "no tensor \"z\"");
    CHECK_STATUS(ctx, remat_session_read(session, "x", &value, 4), REMAT_ERROR_USAGE,
                 "has 18000 bytes, not 4");
    for (uint64_t begin = 0; begin <= 18000; begin += 18000) { /* UBSan looks at the NULL */
        CHECK_OK(ctx, remat_session_read_part(session, "x", begin, NULL, 0));
        CHECK_OK(ctx, remat_session_write_part(session, "x", begin, NULL, 0));
    }
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, write_inputs(session, K, 1));
    CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_INVALID,
                 "command \"rows\": id 900 at position 1");
    CHECK_OK(ctx, write_inputs(session, 1, 0));
    CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_INVALID, "step is 0");
    remat_session_destroy(&session);
    remat_session_destroy(&session);
}

/* The session has it from the plan, by init and from nobody else. */
static void test_constant(remat_context *ctx, const struct remat_plan *plan)
{
    const float rate = 0.25f;
    float value = 7;
    remat_session *session;
    remat_session_params params;
    struct remat_tensor *tensor = &plan->program->tensors[LR], before = *tensor;
    remat_session_params_init(&params);
    tensor->data = &rate;
    tensor->data_bytes = sizeof rate;
    CHECK(remat_plan_entry_access(plan, 0, LR) == REMAT_ENTRY_WRITES);
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, remat_session_read(session, "lr", &value, sizeof value));
    CHECK(value == rate, "%g", (double)value);
    CHECK_STATUS(ctx, remat_session_write(session, "lr", &value, sizeof value), REMAT_ERROR_USAGE,
                 "tensor \"lr\" is a constant of the plan");
    CHECK_STATUS(ctx, remat_session_write_part(session, "lr", 0, &value, sizeof value),
                 REMAT_ERROR_USAGE, "tensor \"lr\" is a constant of the plan");
    remat_session_destroy(&session);
    *tensor = before;
}

static void test_plan(const struct remat_plan *plan)
{
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    CHECK(remat_plan_tensor_count(plan) == BUFFERS && remat_plan_entry_count(plan) == 2, "%u, %u",
          remat_plan_tensor_count(plan), remat_plan_entry_count(plan));
    CHECK(remat_plan_find_tensor(plan, "w") == W && remat_plan_find_tensor(plan, "") == UINT32_MAX);
    CHECK(remat_plan_get_tensor(plan, W, &tensor) && tensor.shape[0] == K && tensor.rank == 2);
    CHECK(tensor.element == REMAT_ELEMENT_F32 && tensor.role == REMAT_TENSOR_PARAMETER);
    CHECK(!remat_plan_get_tensor(plan, BUFFERS, &tensor) && !remat_plan_entry_name(plan, 2));
    CHECK(strcmp(remat_plan_entry_name(plan, 1), "train") == 0, "%s",
          remat_plan_entry_name(plan, 1));
    const uint32_t access[][3] = {{0, W, REMAT_ENTRY_WRITES},
                                  {1, W, REMAT_ENTRY_READS},
                                  {0, IDS, 0},
                                  {1, IDS, REMAT_ENTRY_READS},
                                  {1, LOSS, REMAT_ENTRY_WRITES},
                                  {1, Y, REMAT_ENTRY_READS | REMAT_ENTRY_WRITES},
                                  {2, W, 0},
                                  {1, BUFFERS, 0}};
    for (size_t i = 0; i < sizeof access / sizeof *access; i++)
        CHECK(remat_plan_entry_access(plan, access[i][0], access[i][1]) == access[i][2], "%u, %u",
              access[i][0], access[i][1]);
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    CHECK(info.command_count == 5 && info.arena_bytes == plan->program->arena_bytes,
          "%u commands, %llu bytes", info.command_count, (unsigned long long)info.arena_bytes);
}

/* --- memory --- */

struct counting {
    int calls, fail_at, live;
};

static void *count_allocation(void *user, void *pointer, size_t bytes)
{
    struct counting *counting = user;
    if (bytes == 0) {
        counting->live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (++counting->calls == counting->fail_at)
        return NULL;
    counting->live += pointer == NULL;
    return realloc(pointer, bytes);
}

static void test_allocation_failures(const struct remat_plan *plan)
{
    struct counting counting = {.fail_at = 0};
    remat_allocator allocator = {count_allocation, &counting};
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 2;
    for (int fail_at = 2; fail_at < 100; fail_at++) { /* 1 is the context */
        counting = (struct counting){.fail_at = fail_at};
        remat_context *ctx = remat_context_create(&allocator, NULL);
        remat_session *session;
        remat_status st = remat_session_create(ctx, plan, &params, &session);
        int calls = counting.calls;
        if (st == REMAT_OK) {
            CHECK_OK(ctx, remat_session_run(session, "init"));
            CHECK_OK(ctx, write_inputs(session, 1, 1));
            CHECK_OK(ctx, remat_session_run(session, "train"));
            CHECK(counting.calls == calls, "%d calls, not %d", counting.calls, calls);
        } else {
            CHECK_STATUS(ctx, st, REMAT_ERROR_MEMORY, "out of memory");
            CHECK(!session);
        }
        remat_session_destroy(&session);
        CHECK(counting.live == 1, "%d", counting.live);
        remat_context_destroy(&ctx);
        if (st == REMAT_OK) {
            CHECK(fail_at > 5, "%d", fail_at);
            return;
        }
    }
    CHECK(!"never succeeds");
}

static void test_caller_memory(remat_context *ctx, const struct remat_plan *plan)
{
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 2;
    remat_session *session;
    CHECK_OK(ctx, remat_session_memory_bytes(ctx, plan, &params, &params.memory_bytes));
    char *memory = aligned_alloc(256, params.memory_bytes + 256);
    memset(memory, 0x33, params.memory_bytes + 256);
    params.memory = memory;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    CHECK(remat_session_arena(session) == memory);
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, write_inputs(session, 1, 1));
    CHECK_OK(ctx, remat_session_run(session, "train"));
    for (int i = 0; i < 256; i++)
        CHECK(memory[params.memory_bytes + (uint64_t)i] == 0x33, "byte %d", i);
    remat_session_destroy(&session);
    params.memory_bytes--;
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_USAGE,
                 "bytes of memory for a session that needs");
    params.memory = memory + 8;
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_USAGE,
                 "not aligned to 256");
    free(memory);
}

/* Of a program that nobody verified: arena and scratch together are more than 2^64 bytes. */
static void test_sizes(remat_context *ctx, struct fixture *f)
{
    struct remat_program program = f->program;
    struct remat_plan plan = borrowed_plan(&program);
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 1;
    remat_session *session;
    uint64_t bytes;
    program.arena_bytes = UINT64_MAX - 255;
    CHECK_STATUS(ctx, remat_session_memory_bytes(ctx, &plan, &params, &bytes), REMAT_ERROR_MEMORY,
                 "out of memory: an arena of 18446744073709551360 bytes and 1 times ");
    CHECK_STATUS(ctx, remat_session_create(ctx, &plan, &params, &session), REMAT_ERROR_MEMORY, "");
}

static void test_checks(remat_context *ctx, struct fixture *f, const struct remat_plan *plan)
{
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 1;
    remat_session *session;
    CHECK_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    remat_session_paint(session, 0);
    remat_session_poison(session, true);
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, write_inputs(session, 1, 1));
    CHECK_OK(ctx, remat_session_run(session, "train"));
    CHECK(remat_session_touched_bytes(session) ==
              f->buffers[LOSS].offset_bytes + f->buffers[LOSS].bytes,
          "%llu", (unsigned long long)remat_session_touched_bytes(session));
    uint32_t word;
    memcpy(&word, remat_session_arena(session) + f->buffers[Y].offset_bytes, 4);
    CHECK(word == 0x7fc0deadu, "%08x", word);
    CHECK_OK(ctx, remat_session_guard(session));
    CHECK_OK(ctx, remat_session_run(session, "train"));
    /* The matmul now believes that it writes x: its result is a change outside of that. */
    uint32_t operand = f->commands[1].operand_begin + 2;
    f->operands[operand].access = REMAT_ACCESS_READ;
    CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_INTERNAL,
                 "\"y\" changed byte");
    f->operands[operand].access = REMAT_ACCESS_WRITE;
    remat_session_destroy(&session);
}

int main(void)
{
    static struct fixture f;
    make_fixture(&f);
    struct remat_plan plan = borrowed_plan(&f.program);
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_bits(ctx, &plan);
    test_trace(ctx, &plan);
    test_script(ctx, &plan);
    test_errors(ctx, &plan);
    test_plan(&plan);
    test_constant(ctx, &plan);
    test_allocation_failures(&plan);
    test_caller_memory(ctx, &plan);
    test_checks(ctx, &f, &plan);
    test_sizes(ctx, &f);
    remat_context_destroy(&ctx);
    return check_exit();
}
