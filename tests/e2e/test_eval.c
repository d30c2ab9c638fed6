/* SPDX-License-Identifier: Apache-2.0 */
/* Entry point eval: the loss that the step after it has, with the same bits, and no parameter
 * changed, in one piece and in microbatches; without dropout, whatever the graph says of it; the
 * only entry point of a graph that trains nothing. */
#include <stdio.h>

#include "borrowed_plan.h"
#include "harness.h"

#define BATCH 4
#define SEQ   16
#define STEPS 3

struct losses {
    float evaluated[STEPS], trained[STEPS];
};

static uint64_t weights_hash(remat_context *ctx, remat_session *session, const remat_plan *plan)
{
    static float weights[6 * 4 * 64 * 64 * 3];
    uint64_t hash = 0;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(plan, i, &info);
        if (info.role != REMAT_TENSOR_PARAMETER && info.role != REMAT_TENSOR_OPTIMIZER_STATE)
            continue;
        MUST_OK(ctx, remat_session_read(session, info.name, weights, info.bytes));
        hash = remat_hash(weights, info.bytes, hash);
    }
    return hash;
}

static float run(remat_context *ctx, remat_session *session, const char *entry)
{
    float loss = 0;
    MUST_OK(ctx, remat_session_run(session, entry));
    MUST_OK(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    return loss;
}

static bool has_entry(const remat_plan *plan, const char *name)
{
    for (uint32_t e = 0; e < remat_plan_entry_count(plan); e++)
        if (strcmp(remat_plan_entry_name(plan, e), name) == 0)
            return true;
    return false;
}

static void write_inputs(remat_context *ctx, remat_session *session, const remat_plan *plan,
                         int32_t step)
{
    int32_t ids[BATCH * SEQ + 1];
    const float lr = 1e-3f;
    for (int i = 0; i <= BATCH * SEQ; i++)
        ids[i] = i * i % 251;
    MUST_OK(ctx, remat_session_write(session, "tokens", ids, sizeof ids - 4));
    MUST_OK(ctx, remat_session_write(session, "targets", ids + 1, sizeof ids - 4));
    if (has_entry(plan, "train")) {
        MUST_OK(ctx, remat_session_write(session, "lr", &lr, sizeof lr));
        MUST_OK(ctx, remat_session_write(session, "step", &step, sizeof step));
    }
    if (remat_plan_find_tensor(plan, "rng") != UINT32_MAX)
        MUST_OK(ctx, remat_session_write(session, "rng", (int32_t[]){1, 0, step, 0}, 16));
}

static struct losses run_model(remat_context *ctx, struct remat_model_settings sizes,
                               struct remat_policy_settings policy, uint32_t microbatches)
{
    struct losses losses = {{0}, {0}};
    struct remat_arena arena;
    struct remat_program *program;
    remat_session_params params;
    remat_session *session;
    remat_arena_init(&arena, ctx);
    sizes.batch = BATCH / microbatches;
    sizes.seq = SEQ;
    struct remat_graph *graph = harness_model(ctx, &arena, "gpt2-tiny", sizes);
    const struct remat_pass_settings passes = {.microbatches = microbatches};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &policy, 0, &program));
    struct remat_plan plan = borrowed_plan(program);
    remat_session_params_init(&params);
    MUST_OK(ctx, remat_session_create(ctx, &plan, &params, &session));
    MUST_OK(ctx, remat_session_run(session, "init"));
    CHECK(has_entry(&plan, "train") == !sizes.forward_only && has_entry(&plan, "eval") &&
              remat_plan_entry_count(&plan) == (sizes.forward_only ? 2 : 3),
          "entry points");
    for (int32_t step = 0; step < STEPS; step++) {
        write_inputs(ctx, session, &plan, step + 1);
        uint64_t before = weights_hash(ctx, session, &plan);
        losses.evaluated[step] = run(ctx, session, "eval");
        CHECK(weights_hash(ctx, session, &plan) == before, "eval changed a parameter");
        if (sizes.forward_only)
            continue;
        losses.trained[step] = run(ctx, session, "train");
        CHECK(weights_hash(ctx, session, &plan) != before, "train changed nothing");
    }
    remat_session_destroy(&session);
    remat_arena_release(&arena);
    return losses;
}

/* Without dropout both entry points have one loss. */
static void test_policy(remat_context *ctx, struct remat_policy_settings policy,
                        uint32_t microbatches)
{
    struct losses losses =
        run_model(ctx, (struct remat_model_settings){.layers = 6}, policy, microbatches);
    for (int step = 0; step < STEPS; step++)
        CHECK(memcmp(&losses.evaluated[step], &losses.trained[step], 4) == 0,
              "%u microbatches, step %d: eval %.9g, train %.9g", microbatches, step,
              (double)losses.evaluated[step], (double)losses.trained[step]);
}

/* Before the first update, eval with dropout is eval without; a step is not. */
static void test_dropout(remat_context *ctx, bool written_out, remat_dtype dtype)
{
    const struct remat_policy_settings none = {0};
    struct remat_model_settings sizes = {.layers = 2, .written_out = written_out, .dtype = dtype};
    struct losses without = run_model(ctx, sizes, none, 1);
    sizes.dropout = 0.1;
    struct losses with = run_model(ctx, sizes, none, 1), parts = run_model(ctx, sizes, none, 2);
    sizes.forward_only = true;
    struct losses forward = run_model(ctx, sizes, none, 1);
    struct losses forward_parts = run_model(ctx, sizes, none, 2);
    CHECK(memcmp(&with.evaluated[0], &without.evaluated[0], 4) == 0 &&
              with.trained[0] != without.trained[0],
          "eval %.9g, without dropout %.9g; train %.9g and %.9g", (double)with.evaluated[0],
          (double)without.evaluated[0], (double)with.trained[0], (double)without.trained[0]);
    CHECK(memcmp(forward.evaluated, (float[]){forward.evaluated[0], forward.evaluated[0]}, 8) ==
                  0 &&
              memcmp(&forward.evaluated[0], &with.evaluated[0], 4) == 0,
          "forward only: %.9g, of a training graph %.9g", (double)forward.evaluated[0],
          (double)with.evaluated[0]);
    CHECK(memcmp(&forward_parts.evaluated[0], &parts.evaluated[0], 4) == 0,
          "forward only in parts: %.9g, of a training graph %.9g",
          (double)forward_parts.evaluated[0], (double)parts.evaluated[0]);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t microbatches = 1; microbatches <= 4; microbatches *= 2) {
        test_policy(ctx, (struct remat_policy_settings){0}, microbatches);
        test_policy(ctx, (struct remat_policy_settings){.ac_mode = "full"}, microbatches);
    }
    test_dropout(ctx, false, REMAT_F32);
    test_dropout(ctx, true, REMAT_BF16);
    remat_context_destroy(&ctx);
    return check_exit();
}
