/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of padding in a session's memory: parameters, masters and moments begin with zeros there and
 * keep them, and gradients are +0 there; the other rows are not. */
#include <stdio.h>

#include "borrowed_plan.h"
#include "harness.h"

#define STEPS 3

static uint32_t tensors, gradients; /* with padding */
static const remat_plan *traced;

/* That the elements before the rows of padding are not all 0, and those in them are. */
static void check_rows(const char *preset, const char *name, const char *data, uint64_t bytes,
                       const remat_tensor_info *info, bool starts_at_zero)
{
    uint64_t kept = bytes / (uint64_t)info->whole_shape[0] * (uint64_t)info->unpadded_rows;
    uint64_t nonzero[2] = {0, 0};
    for (uint64_t i = 0; i < bytes; i++)
        nonzero[i >= kept] += data[i] != 0;
    CHECK(nonzero[1] == 0 && (starts_at_zero || nonzero[0] > 0),
          "%s, %s: %llu bytes, %llu in padding", preset, name, (unsigned long long)nonzero[0],
          (unsigned long long)nonzero[1]);
}

static bool find_padded(const remat_plan *plan, uint32_t index, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, index, out) && out->rank &&
           out->unpadded_rows < out->whole_shape[0];
}

static void check_tensors(remat_context *ctx, const remat_plan *plan, remat_session *session,
                          const char *preset, uint32_t step)
{
    static char data[1 << 17];
    remat_tensor_info info;
    for (uint32_t t = 0; t < remat_plan_tensor_count(plan); t++) {
        if (!find_padded(plan, t, &info))
            continue;
        bool zero = info.role != REMAT_TENSOR_PARAMETER || info.rank == 1;
        MUST(info.bytes <= sizeof data);
        MUST_OK(ctx, remat_session_read(session, info.name, data, info.bytes));
        check_rows(preset, info.name, data, info.bytes, &info, step == 0 && zero);
        tensors++;
    }
}

static int check_gradients(void *user, const remat_trace_event *event)
{
    for (uint32_t v = 0; v < event->value_count; v++) {
        const remat_trace_value *value = &event->values[v];
        char name[256];
        remat_tensor_info info;
        snprintf(name, sizeof name, "%.*s", (int)strlen(value->name) - 5, value->name);
        if (value->role != REMAT_TENSOR_GRADIENT ||
            !find_padded(traced, remat_plan_find_tensor(traced, name), &info))
            continue;
        check_rows(user, value->name, value->data, value->bytes, &info, false);
        gradients++;
    }
    return 0;
}

static void run(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                uint32_t loss_chunk)
{
    struct remat_policy_settings none = {0};
    struct remat_program *program;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    const struct remat_pass_settings passes = {.loss_chunk = loss_chunk};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program));
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(ctx, &plan, 1);
    traced = &plan;
    check_tensors(ctx, &plan, session, preset, 0);
    remat_session_set_trace(session, check_gradients, (void *)preset);
    for (uint32_t step = 0; step < STEPS; step++) {
        harness_write_inputs(ctx, session, &plan, step, 1e-2f);
        MUST_OK(ctx, remat_session_run(session, "train"));
        check_tensors(ctx, &plan, session, preset, step + 1);
    }
    remat_session_destroy(&session);
    remat_arena_release(&arena);
}

int main(void)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t k = 0; k < 4; k++) {
            const struct remat_model_settings sizes = {.layers = 1,
                                                       .vocab = 251,
                                                       .vocab_multiple = 64,
                                                       .batch = 2,
                                                       .seq = 16,
                                                       .dropout = 0.1,
                                                       .optimizer = {.clip_norm = 1},
                                                       .dtype = k % 2 ? REMAT_BF16 : REMAT_F32};
            run(ctx, presets[p], sizes, k < 2 ? 0 : 16);
        }
    CHECK(tensors > 0 && gradients > 0, "nothing is padded");
    printf("%u tensors, %u gradients\n", tensors, gradients);
    remat_context_destroy(&ctx);
    return check_exit();
}
