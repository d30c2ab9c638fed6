/* SPDX-License-Identifier: Apache-2.0 */
/* The flag "not_finite": a step sets it if one element of one gradient is infinite, the next step
 * clears it, and it stays 0 otherwise; in fp32 and bf16, with every optimizer, clipped, and in
 * microbatches. What flags is ordered after what clears.
 *
 * The weights are such that the loss is finite and the only such element is one of the last norm's
 * weight: every row of x is 8 there after the norm and 0 elsewhere, the logits are 0, and one
 * weight of the vocabulary is 2^127. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "borrowed_plan.h"
#include "harness.h"
#include "program.h"

#define BATCH  2
#define SEQ    8
#define TARGET 7
#define WIDTH  64

static const struct subject {
    const char *name;
    remat_dtype dtype;
    uint8_t optimizer;
    double clip_norm;
    uint32_t microbatches;
    uint32_t column; /* of the element: the first, the last, one between */
    bool recomputed;
} subjects[] = {
    {"fp32", REMAT_F32, REMAT_OPTIMIZER_ADAMW, 0, 1, 0, false},
    {"fp32, clipped", REMAT_F32, REMAT_OPTIMIZER_ADAMW, 1, 1, WIDTH - 1, true},
    {"fp32, sgd", REMAT_F32, REMAT_OPTIMIZER_SGD, 0, 1, 31, false},
    {"fp32, sgd, clipped, microbatches", REMAT_F32, REMAT_OPTIMIZER_SGD, 1, 2, 1, false},
    {"bf16", REMAT_BF16, REMAT_OPTIMIZER_ADAMW, 0, 1, WIDTH - 1, true},
    {"bf16, clipped, microbatches", REMAT_BF16, REMAT_OPTIMIZER_ADAMW, 1, 2, 0, false},
    {"bf16, sgd", REMAT_BF16, REMAT_OPTIMIZER_SGD, 0, 1, 62, false},
};

/* --- the weights --- */

/* `value` everywhere, or where `column` is one, there, in all rows or in `row`. */
static void write_weight(remat_context *ctx, remat_session *session, const remat_plan *plan,
                         const char *name, float value, uint32_t column, uint32_t row)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    MUST(remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), &info), "%s", name);
    bool narrow = info.element == REMAT_ELEMENT_BF16;
    uint64_t count = info.bytes / (narrow ? 2 : 4);
    char *data = malloc(info.bytes);
    for (uint64_t i = 0; i < count; i++) {
        bool here = column == UINT32_MAX ||
                    (i % WIDTH == column && (row == UINT32_MAX || i / WIDTH == row));
        float element = here ? value : 0.0f;
        memcpy(data + i * (narrow ? 2 : 4), (const char *)&element + (narrow ? 2 : 0),
               narrow ? 2 : 4);
    }
    MUST_OK(ctx, remat_session_write(session, name, data, info.bytes));
    free(data);
}

static void spoil(remat_context *ctx, remat_session *session, const remat_plan *plan,
                  uint32_t column)
{
    char name[64];
    int32_t targets[BATCH * SEQ];
    write_weight(ctx, session, plan, "model.embed_tokens.weight", 1.0f, column, UINT32_MAX);
    for (int layer = 0; layer < 2; layer++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.o_proj.weight", layer);
        write_weight(ctx, session, plan, name, 0, UINT32_MAX, UINT32_MAX);
        snprintf(name, sizeof name, "model.layers.%d.mlp.down_proj.weight", layer);
        write_weight(ctx, session, plan, name, 0, UINT32_MAX, UINT32_MAX);
    }
    write_weight(ctx, session, plan, "model.norm.weight", 0, UINT32_MAX, UINT32_MAX);
    write_weight(ctx, session, plan, "lm_head.weight", 0x1p127f, column, TARGET);
    for (int t = 0; t < BATCH * SEQ; t++)
        targets[t] = TARGET;
    MUST_OK(ctx, remat_session_write(session, "targets", targets, sizeof targets));
}

/* --- steps --- */

struct watched {
    uint32_t elements;  /* that were not finite, of one gradient at most */
    uint32_t gradients; /* of which some element was not */
};

static int watch(void *user, const remat_trace_event *event)
{
    struct watched *watched = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        uint32_t bytes = v->element == REMAT_ELEMENT_BF16 ? 2 : 4, found = 0;
        for (uint64_t at = 0; v->role == REMAT_TENSOR_GRADIENT && at < v->bytes; at += bytes) {
            float element = 0;
            memcpy((char *)&element + 4 - bytes, (const char *)v->data + at, bytes);
            found += !isfinite(element);
        }
        watched->gradients += found > 0;
        watched->elements = found > watched->elements ? found : watched->elements;
    }
    return 0;
}

static int32_t read_flag(remat_context *ctx, remat_session *session)
{
    int32_t flag = -1;
    MUST_OK(ctx, remat_session_read(session, "not_finite", &flag, sizeof flag));
    return flag;
}

/* A step, with what is expected of it. */
static void step(remat_context *ctx, remat_session *session, const struct subject *s,
                 struct watched *watched, bool finite)
{
    float loss;
    *watched = (struct watched){0};
    MUST_OK(ctx, remat_session_run(session, "train"));
    MUST_OK(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    int32_t flag = read_flag(ctx, session);
    CHECK(isfinite(loss) && flag == !finite, "%s: loss %g, flag %d, expected %d", s->name,
          (double)loss, flag, !finite);
    CHECK(finite ? watched->elements == 0
                 : watched->elements == 1 && watched->gradients == s->microbatches,
          "%s: %u elements of %u gradients are not finite", s->name, watched->elements,
          watched->gradients);
}

static void run(remat_context *ctx, struct remat_program *program, const struct subject *s)
{
    struct remat_plan plan = borrowed_plan(program);
    struct watched watched;
    remat_session *session = harness_open(ctx, &plan, 2);
    remat_session_set_trace(session, watch, &watched);
    for (uint32_t round = 0; round < 2; round++) {
        MUST_OK(ctx, remat_session_run(session, "init"));
        harness_write_inputs(ctx, session, &plan, 0, 1e-3f);
        step(ctx, session, s, &watched, true);
        spoil(ctx, session, &plan, s->column);
        step(ctx, session, s, &watched, false);
        /* Other weights, and only these: the step clears the flag. */
        uint32_t tensors = remat_plan_tensor_count(&plan);
        for (uint32_t t = 0; t < tensors; t++) {
            remat_tensor_info info = {.struct_size = sizeof info};
            remat_plan_get_tensor(&plan, t, &info);
            if (info.role == REMAT_TENSOR_PARAMETER)
                write_weight(ctx, session, &plan, info.name, 0.0f, UINT32_MAX, UINT32_MAX);
        }
        step(ctx, session, s, &watched, true);
    }
    remat_session_destroy(&session);
}

/* --- the program --- */

static bool runs_in(const struct remat_program *p, const char *entry, uint32_t command)
{
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t c = p->entries[e].call_begin; c < p->entries[e].call_end; c++) {
            const struct remat_segment *segment = &p->segments[p->calls[c].segment];
            if (strcmp(p->entries[e].name, entry) == 0 && segment->command_begin <= command &&
                command < segment->command_end)
                return true;
        }
    return false;
}

/* Every update flags; one command clears, in the same segment; eval does neither. */
static void check_commands(const struct remat_program *p, const struct subject *s)
{
    uint32_t flags = 0, clears = 0, parameters = 0;
    for (uint32_t t = 0; t < p->tensor_count; t++)
        parameters += p->values[p->tensors[t].value].role == REMAT_ROLE_PARAMETER;
    for (uint32_t c = 0; c < p->command_count; c++)
        for (uint32_t o = p->commands[c].operand_begin; o < p->commands[c].operand_end; o++) {
            const struct remat_operand *operand = &p->operands[o];
            if (strcmp(p->values[operand->value].name, "not_finite") != 0)
                continue;
            CHECK(!runs_in(p, "eval", c), "%s: eval touches the flag", s->name);
            flags += operand->access == REMAT_ACCESS_FLAG;
            clears += operand->access == REMAT_ACCESS_UPDATE;
        }
    CHECK(flags == parameters && clears == 1, "%s: %u flags of %u parameters, %u clears", s->name,
          flags, parameters, clears);
}

static void refuse(remat_context *ctx, remat_status st, const char *message)
{
    CHECK(st != REMAT_OK && strstr(remat_context_message(ctx), message), "refused: \"%s\"",
          st != REMAT_OK ? remat_context_message(ctx) : "");
}

/* The first command that flags with another version. */
static void check_order(remat_context *ctx, const struct remat_program *p)
{
    for (uint32_t c = 0; c < p->command_count; c++) {
        struct remat_operand *all = p->operands + p->commands[c].operand_begin;
        uint32_t count = p->commands[c].operand_end - p->commands[c].operand_begin, flag = 0;
        while (flag < count && all[flag].access != REMAT_ACCESS_FLAG)
            flag++;
        if (flag == count)
            continue;
        struct remat_operand good = all[flag];
        for (uint32_t t = 0; t < p->tensor_count; t++)
            if (strcmp(p->tensors[t].name, "not_finite") == 0)
                all[flag].value = p->tensors[t].value;
        CHECK(all[flag].value != good.value, "the flag has no version of its own");
        refuse(ctx, remat_program_simulate(ctx, p), "holds the newer version \"not_finite\"");
        all[flag] = good;
        MUST_OK(ctx, remat_program_simulate(ctx, p));
        return;
    }
}

/* --- the whole --- */

static void test(const struct subject *s)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_model_settings sizes = {
        .batch = BATCH / s->microbatches, .seq = SEQ, .dtype = s->dtype};
    struct remat_policy_settings policy = {0};
    remat_arena_init(&arena, ctx);
    sizes.optimizer = (struct remat_optimizer){.kind = s->optimizer,
                                               .beta1 = 0.9,
                                               .beta2 = 0.999,
                                               .epsilon = 1e-8,
                                               .clip_norm = s->clip_norm};
    if (s->recomputed)
        policy = (struct remat_policy_settings){.recompute_granularity = "full",
                                                .recompute_method = "uniform"};
    struct remat_graph *graph = harness_model(ctx, &arena, "llama-tiny", sizes);
    const struct remat_pass_settings passes = {.microbatches = s->microbatches};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &policy, 0, &program));
    check_commands(program, s);
    run(ctx, program, s);
    if (s == subjects)
        check_order(ctx, program);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

static void test_without_optimizer(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_program *program;
    const struct remat_policy_settings policy = {0};
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(
        ctx, &arena, "llama-tiny", (struct remat_model_settings){.seq = SEQ, .batch = 1});
    graph->optimizer = (struct remat_optimizer){0};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &policy, 0, &program));
    for (uint32_t t = 0; t < program->tensor_count; t++)
        CHECK(strcmp(program->tensors[t].name, "not_finite") != 0, "a flag without an optimizer");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

int main(void)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        test(&subjects[i]);
    test_without_optimizer();
    return check_exit();
}
