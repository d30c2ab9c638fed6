/* Entry point eval: the loss that the step after it has, with the same bits, and no parameter
 * changed. */
#include <stdio.h>

#include "harness.h"

#define BATCH 2
#define SEQ   32

static uint64_t weights_hash(remat_context *ctx, remat_session *session, const remat_plan *plan)
{
    static float weights[6 * 4 * 64 * 64 * 3];
    uint64_t hash = 0;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(plan, i, &info);
        if (info.role != REMAT_TENSOR_PARAMETER && info.role != REMAT_TENSOR_OPTIMIZER_STATE)
            continue;
        MUST(ctx, remat_session_read(session, info.name, weights, info.bytes));
        hash = remat_hash(weights, info.bytes, hash);
    }
    return hash;
}

static float run(remat_context *ctx, remat_session *session, const char *entry)
{
    float loss = 0;
    MUST(ctx, remat_session_run(session, entry));
    MUST(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    return loss;
}

static void test_policy(remat_context *ctx, struct remat_policy_settings policy)
{
    struct remat_arena arena;
    struct remat_program *program;
    remat_session_params params;
    remat_session *session;
    int32_t ids[BATCH * SEQ + 1];
    const float lr = 1e-3f;
    remat_arena_init(&arena, ctx);
    const struct remat_graph *graph = harness_model(
        ctx, &arena, "gpt2-tiny", (struct remat_model_settings){.batch = BATCH, .seq = SEQ});
    MUST(ctx, harness_compile(ctx, &arena, graph, &policy, 0, 0, &program));
    struct remat_plan plan = remat_plan_borrow(program);
    remat_session_params_init(&params);
    MUST(ctx, remat_session_create(ctx, &plan, &params, &session));
    for (int i = 0; i <= BATCH * SEQ; i++)
        ids[i] = i * i % 251;
    MUST(ctx, remat_session_run(session, "init"));
    for (int32_t step = 1; step <= 3; step++) {
        MUST(ctx, remat_session_write(session, "tokens", ids, sizeof ids - 4));
        MUST(ctx, remat_session_write(session, "targets", ids + 1, sizeof ids - 4));
        MUST(ctx, remat_session_write(session, "lr", &lr, sizeof lr));
        MUST(ctx, remat_session_write(session, "step", &step, sizeof step));
        uint64_t before = weights_hash(ctx, session, &plan);
        float evaluated = run(ctx, session, "eval");
        harness_check(weights_hash(ctx, session, &plan) == before, "eval changed a parameter");
        float trained = run(ctx, session, "train");
        harness_check(memcmp(&evaluated, &trained, sizeof trained) == 0,
                      "step %d: eval %.9g, train %.9g", step, (double)evaluated, (double)trained);
        harness_check(weights_hash(ctx, session, &plan) != before, "train changed nothing");
    }
    remat_session_destroy(&session);
    remat_arena_release(&arena);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_policy(ctx, (struct remat_policy_settings){0});
    test_policy(ctx, (struct remat_policy_settings){.ac_mode = "full"});
    remat_context_destroy(&ctx);
    return harness_exit();
}
