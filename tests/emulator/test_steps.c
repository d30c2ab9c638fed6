/* SPDX-License-Identifier: Apache-2.0 */
/* Whole training steps through the runtime on an emulated device: emitted kernels run in the
 * emulator, matmul on the CPU device. After each emitted command the arena is the CPU device's, bit
 * for bit, and attention's results to rounding; of fused kernels also float64's, to rounding. The
 * losses and gradients of two plans have the same bits. Then groups alone are emulated, each in the
 * place of its last command, and losses and all that lasts have the CPU device's bits.
 *
 *     test_steps COMPILER */
#include "device.h"
#include "harness.h"
#include "kernels.h"
#include "plans.h"
#include "reference64.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Of a tensor's largest element: sums of up to some thousand elements; attention where
 * probabilities and gradients of scores are f32, and where they are rounded to bf16 before they are
 * multiplied. */
#define TOLERANCE64    2e-6
#define TOLERANCE_F32  1e-5
#define TOLERANCE_BF16 0x1p-6

static const char *compiler;
static enum { NOTHING, COMMANDS, GROUPS } emulate;
static uint64_t commands_run, kernels_made, groups_run, lasting_hash;
static double worst64;

struct emulated {
    struct remat_device base;
    remat_context *ctx;
    const struct remat_program *program;
    struct remat_device *cpu;
    uint64_t seed;
    struct remat_arena arena;
    struct remat_cuda_code code;
    struct remat_cuda_groups groups;
    struct emulator *emulator;
    void *library;
    emulator_kernel **kernels;
    uint8_t *compared64; /* by kernel of the program */
    char *memory, *workspace, *before, *after;
};

static uint32_t default_threads(void)
{
    return 1;
}

static void hash_lasting(const struct emulated *e)
{
    lasting_hash = 0;
    for (uint32_t b = 0; e->memory && b < e->program->buffer_count; b++) {
        const struct remat_buffer *buffer = &e->program->buffers[b];
        if (buffer->persistent)
            lasting_hash =
                remat_hash(e->memory + buffer->offset_bytes, buffer->bytes, lasting_hash);
    }
}

static void destroy(struct remat_device **device)
{
    struct emulated *e = (struct emulated *)*device;
    hash_lasting(e);
    emulator_destroy(&e->emulator);
    if (e->library)
        kernels_close(e->library);
    e->cpu->vtable->destroy(&e->cpu);
    remat_arena_release(&e->arena);
    free(e->memory);
    free(e->before);
    free(e->after);
    free(e->compared64);
    free(e);
    *device = NULL;
}

static remat_status create(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out);

static uint64_t base_bytes(const struct remat_device *device)
{
    const struct emulated *e = (const struct emulated *)device;
    return e->cpu->vtable->base_bytes(e->cpu);
}

static uint64_t thread_bytes(const struct remat_device *device)
{
    const struct emulated *e = (const struct emulated *)device;
    return e->cpu->vtable->thread_bytes(e->cpu);
}

static remat_status bind(struct remat_device *device, void *memory)
{
    struct emulated *e = (struct emulated *)device;
    uint64_t bytes = remat_align_up(e->base.memory_bytes, REMAT_ALIGNMENT);
    (void)memory; /* the workspace has to lie beside it */
    e->memory = aligned_alloc(REMAT_ALIGNMENT, bytes + e->code.workspace_bytes);
    e->workspace = e->memory + bytes;
    e->before = malloc(e->program->arena_bytes);
    e->after = malloc(e->program->arena_bytes);
    e->emulator = emulator_create(e->memory, bytes + e->code.workspace_bytes);
    if (!e->memory || !e->before || !e->after || !e->emulator)
        return REMAT_ERROR_MEMORY;
    e->base.memory = e->memory;
    return e->cpu->vtable->bind(e->cpu, e->memory);
}

static remat_status begin(struct remat_device *device)
{
    struct emulated *e = (struct emulated *)device;
    return e->cpu->vtable->begin(e->cpu);
}

static remat_status end(struct remat_device *device)
{
    struct emulated *e = (struct emulated *)device;
    return e->cpu->vtable->end(e->cpu);
}

static remat_status mark(struct remat_device *device, uint32_t slot)
{
    struct emulated *e = (struct emulated *)device;
    return e->cpu->vtable->mark(e->cpu, slot);
}

static remat_status elapsed(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns)
{
    struct emulated *e = (struct emulated *)device;
    return e->cpu->vtable->elapsed(e->cpu, from, to, ns);
}

/* What the command only writes becomes NaN, unless it reads there. */
static void poison(struct emulated *e, const struct remat_command *command)
{
    const struct remat_program *p = e->program;
    for (uint32_t w = command->operand_begin; w < command->operand_end; w++) {
        const struct remat_buffer *written = &p->buffers[p->values[p->operands[w].value].buffer];
        bool reads = p->operands[w].access != REMAT_ACCESS_WRITE;
        for (uint32_t r = command->operand_begin; r < command->operand_end && !reads; r++) {
            const struct remat_buffer *read = &p->buffers[p->values[p->operands[r].value].buffer];
            reads = p->operands[r].access != REMAT_ACCESS_WRITE &&
                    read->offset_bytes < written->offset_bytes + written->bytes &&
                    written->offset_bytes < read->offset_bytes + read->bytes;
        }
        if (!reads)
            memset(e->memory + written->offset_bytes, 0xff, written->bytes);
    }
}

static float load(const char *p, uint8_t dtype)
{
    uint32_t bits = 0, bytes = remat_dtype_bytes((remat_dtype)dtype);
    float value;
    memcpy((char *)&bits + 4 - bytes, p, bytes);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The largest difference of one result of attention from the CPU's, whose place it takes. */
static double take_rounded(struct emulated *e, const struct remat_operand *o)
{
    uint32_t bytes = remat_dtype_bytes((remat_dtype)o->dtype);
    uint64_t count = 1,
             begin = e->program->buffers[e->program->values[o->value].buffer].offset_bytes;
    double difference = 0, largest = 0;
    for (uint32_t k = 0; k < o->rank; k++)
        count *= (uint64_t)o->shape[k];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = i, at = o->offset_elements;
        for (uint32_t k = o->rank; k-- > 0; rest /= (uint64_t)o->shape[k])
            at += rest % (uint64_t)o->shape[k] * (uint64_t)o->strides[k];
        char *cpu = e->memory + begin + at * bytes;
        const char *found = e->after + begin + at * bytes;
        double x = load(cpu, o->dtype), y = load(found, o->dtype);
        if (x != y)
            difference = isnan(x - y) ? INFINITY : fmax(difference, fabs(x - y));
        largest = fmax(largest, fabs(x));
        memcpy(cpu, found, bytes);
    }
    return difference == 0 ? 0 : difference / largest;
}

/* Attention has bits of its own: to rounding the CPU's, and the step goes on with them. */
static remat_status take_attention(struct emulated *e, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &e->program->operands[o];
        double tolerance = operand->dtype == REMAT_BF16 ? TOLERANCE_BF16 : TOLERANCE_F32;
        double difference = operand->access == REMAT_ACCESS_WRITE ? take_rounded(e, operand) : 0;
        if (!(difference < tolerance))
            return remat_error(e->ctx, REMAT_ERROR_INTERNAL,
                               "command \"%s\", operand %u: %.3g from the CPU's, relative",
                               command->name, o - command->operand_begin, difference);
    }
    return REMAT_OK;
}

static struct kernels_place place_of(const struct emulated *e, uint64_t number)
{
    return (struct kernels_place){
        e->emulator,  e->program,
        &e->code,     e->kernels,
        e->seed,      e->memory,
        e->workspace, number % 2 * number /* every other one in random order */,
        NULL};
}

static remat_status execute_group(struct emulated *e, uint32_t c)
{
    uint32_t group = e->groups.group[c];
    if (group == REMAT_NONE)
        return e->cpu->vtable->execute(e->cpu, c);
    if (e->groups.commands[e->groups.begin[group + 1] - 1] != c)
        return REMAT_OK;
    struct kernels_place place = place_of(e, ++groups_run);
    const char *fault = kernels_run_group(&place, &e->groups, group);
    return fault ? remat_error(e->ctx, REMAT_ERROR_INTERNAL, "group of command \"%s\": %s",
                               e->program->commands[c].name, fault)
                 : REMAT_OK;
}

static remat_status execute(struct remat_device *device, uint32_t c)
{
    struct emulated *e = (struct emulated *)device;
    const struct remat_command *command = &e->program->commands[c];
    uint64_t bytes = e->program->arena_bytes;
    if (emulate == NOTHING || e->code.launch_begin[c] == e->code.launch_begin[c + 1])
        return e->cpu->vtable->execute(e->cpu, c);
    if (emulate == GROUPS)
        return execute_group(e, c);
    poison(e, command);
    memcpy(e->before, e->memory, bytes);
    memset(e->workspace, 0xff, e->code.workspace_bytes);
    struct kernels_place place = place_of(e, ++commands_run);
    const char *fault = kernels_run(&place, c);
    const char *key = e->code.kernels[e->code.launches[e->code.launch_begin[c]].kernel].key;
    if (fault)
        return remat_error(e->ctx, REMAT_ERROR_INTERNAL, "%s: %s", key, fault);
    memcpy(e->after, e->memory, bytes);
    memcpy(e->memory, e->before, bytes);
    remat_status st = e->cpu->vtable->execute(e->cpu, c);
    uint32_t kind = e->program->kernels[command->kernel].kind;
    if (st == REMAT_OK &&
        (kind == REMAT_KERNEL_attention || kind == REMAT_KERNEL_attention_backward))
        st = take_attention(e, command);
    bool same = memcmp(e->memory, e->after, bytes) == 0;
    for (uint64_t i = 0; i < bytes && st == REMAT_OK && !same; i++)
        if (e->memory[i] != e->after[i])
            st = remat_error(e->ctx, REMAT_ERROR_INTERNAL,
                             "command \"%s\", %s: byte %llu of the arena is not the CPU's",
                             command->name, key, (unsigned long long)i);
    if (kind == REMAT_KERNEL_fused && e->compared64[command->kernel]++ < 2) {
        double difference = reference64_difference(e->program, c, e->before, e->after);
        worst64 = difference > worst64 ? difference : worst64;
        if (st == REMAT_OK && !(difference < TOLERANCE64))
            st = remat_error(e->ctx, REMAT_ERROR_INTERNAL,
                             "command \"%s\", %s: %.3g from float64, relative", command->name, key,
                             difference);
    }
    return st;
}

static remat_status write_memory(struct remat_device *device, uint64_t offset, const void *data,
                                 uint64_t bytes)
{
    memcpy(device->memory + offset, data, bytes);
    return REMAT_OK;
}

static remat_status read_memory(struct remat_device *device, uint64_t offset, void *data,
                                uint64_t bytes)
{
    memcpy(data, device->memory + offset, bytes);
    return REMAT_OK;
}

static const struct remat_device_vtable emulated_device = {
    .name = "cpu",
    .default_threads = default_threads,
    .create = create,
    .destroy = destroy,
    .base_bytes = base_bytes,
    .thread_bytes = thread_bytes,
    .bind = bind,
    .begin = begin,
    .execute = execute,
    .end = end,
    .mark = mark,
    .elapsed = elapsed,
    .write = write_memory,
    .read = read_memory,
};

/* In every entry point; cuBLASLt multiplies. */
static void check_all_launch(const struct emulated *e)
{
    for (uint32_t c = 0; c < e->program->command_count; c++) {
        uint32_t kind = e->program->kernels[e->program->commands[c].kernel].kind;
        CHECK((e->code.launch_begin[c] == e->code.launch_begin[c + 1]) ==
                  (kind == REMAT_KERNEL_matmul),
              "command \"%s\", %s: %u launches", e->program->commands[c].name,
              remat_kernel_kind_name(kind), e->code.launch_begin[c + 1] - e->code.launch_begin[c]);
    }
}

static remat_status create(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out)
{
    remat_status st = REMAT_OK;
    struct emulated *e = calloc(1, sizeof *e);
    *e = (struct emulated){
        .base.vtable = &emulated_device, .ctx = ctx, .program = program, .seed = params->seed};
    remat_arena_init(&e->arena, ctx);
    *out = &e->base;
    REMAT_TRY(remat_cpu_device.create(ctx, program, params, &e->cpu));
    e->base.memory_bytes = e->cpu->memory_bytes;
    e->code = program->cuda; /* as the runtime has read it */
    REMAT_TRY_NEW(&e->arena, e->kernels, e->code.kernel_count);
    REMAT_TRY(remat_cuda_groups_find(&e->arena, program, &e->groups));
    check_all_launch(e);
    e->compared64 = calloc(program->kernel_count, 1);
    if (emulate == NOTHING)
        goto fail;
    char *text = kernels_text(&e->code);
    e->library = kernels_compile(compiler, text);
    free(text);
    for (uint32_t k = 0; k < e->code.kernel_count; k++)
        e->kernels[k] = kernels_find(e->library, e->code.kernels[k].symbol);
    kernels_made += e->code.kernel_count;
fail:
    return st;
}

/* Takes the place of runtime/device/device.c: sessions find the emulated device. */
const struct remat_device_vtable *remat_device_find(const char *name)
{
    if (strcmp(name, "cpu") != 0)
        return NULL;
    return &emulated_device;
}

static struct remat_policy_settings policy_of(const char *name)
{
    for (unsigned i = 0; i < named_policy_count; i++)
        if (strcmp(named_policies[i].name, name) == 0)
            return named_policies[i].settings;
    return (struct remat_policy_settings){0};
}

static const struct run {
    const char *policy;
    int emulate;
    uint32_t same_loss, same_state; /* as the run of that number */
} runs[] = {{"none", NOTHING, 0, 0},      {"none", COMMANDS, 1, 1}, {"uniform 1", COMMANDS, 1, 2},
            {"uniform 1", NOTHING, 0, 3}, {"none", GROUPS, 0, 0},   {"uniform 1", GROUPS, 0, 3}};
#define RUNS (sizeof runs / sizeof *runs)

/* Runs of two steps. */
static void test_model(const char *preset, struct remat_model_settings sizes, uint32_t microbatches)
{
    const struct run_settings settings = {.threads = 1, .steps = 2};
    const double tolerance = sizes.dtype == REMAT_BF16 ? TOLERANCE_BF16 : TOLERANCE_F32;
    struct run_result results[RUNS];
    uint64_t states[RUNS];
    commands_run = kernels_made = groups_run = 0;
    worst64 = 0;
    for (uint32_t r = 0; r < RUNS; r++) {
        remat_context *ctx = remat_context_create(NULL, NULL);
        struct remat_arena arena;
        struct remat_program *program;
        struct remat_policy_settings policy = policy_of(runs[r].policy);
        remat_arena_init(&arena, ctx);
        struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
        const struct remat_pass_settings passes = {.microbatches = microbatches,
                                                   .loss_chunk = microbatches > 1 ? 11 : 0};
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &policy, 0, &program));
        emulate = runs[r].emulate;
        results[r] = harness_run(ctx, program, &settings);
        states[r] = lasting_hash;
        CHECK(states[r] == states[runs[r].same_state], "%s, run %u: another state than run %u",
              preset, r, runs[r].same_state);
        remat_arena_release(&arena);
        remat_context_destroy(&ctx);
    }
    for (uint32_t r = 0; r < RUNS; r++)
        for (uint32_t s = 0; s < settings.steps; s++) {
            const struct run_result *run = &results[r], *same = &results[runs[r].same_loss];
            CHECK(fabs((double)run->loss[s] - (double)results[0].loss[s]) <
                      tolerance * fabs((double)results[0].loss[s]),
                  "%s, run %u, step %u: loss %.9g, on the CPU %.9g", preset, r, s,
                  (double)run->loss[s], (double)results[0].loss[s]);
            /* A gradient that waits for its group is looked at too early. */
            bool late = runs[r].emulate == GROUPS;
            CHECK(run->loss_hash[s] == same->loss_hash[s] &&
                      (late || run->gradient_hash[s] == same->gradient_hash[s]),
                  "%s, run %u, step %u: another loss or gradient than run %u", preset, r, s,
                  runs[r].same_loss);
        }
    CHECK(commands_run > 0 && groups_run > 0 && results[2].gradient_count > 0, "%s: nothing ran",
          preset);
    printf("%-12s %-5s %4llu kernels, %5llu commands and %3llu groups emulated, float64 to %.1e\n",
           preset, sizes.dtype == REMAT_BF16 ? "bf16" : "fp32", (unsigned long long)kernels_made,
           (unsigned long long)commands_run, (unsigned long long)groups_run, worst64);
}

int main(int argc, char **argv)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    compiler = argv[1];
    for (uint32_t p = 0; p < sizeof presets / sizeof *presets; p++)
        for (uint32_t bf16 = 0; bf16 < 2; bf16++) {
            struct remat_model_settings sizes = {.batch = 2, .seq = 19, .dropout = 0.1};
            sizes.dtype = bf16 ? REMAT_BF16 : REMAT_F32;
            sizes.layers = 2;
            sizes.vocab = p == 0 ? 1031 : 0; /* logits with a pitch */
            sizes.optimizer.clip_norm = p % 2 ? 0.1 : 0;
            if (p > 0 && p % 2 == bf16) { /* logits with padding */
                sizes.vocab = 251;
                sizes.vocab_multiple = 64;
            }
            if (p == 1 && bf16) {
                sizes.optimizer.no_master = sizes.optimizer.bf16_moments = true;
                sizes.lora.rank = 5;
            }
            if (argc < 3 || strcmp(argv[2], presets[p]) == 0)
                test_model(presets[p], sizes, p < 2 ? 2 : 1);
        }
    return check_exit();
}
