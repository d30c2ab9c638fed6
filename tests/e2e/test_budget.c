/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: equal policies make equal plans; more budget never gives a slower plan; the smallest
 * budget that a refusal names is feasible and one byte less is not. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

static const struct remat_policy_settings all_layers[] = {
    {.recompute_granularity = "full",
     .recompute_method = "uniform",
     .has_recompute_num_layers = true,
     .recompute_num_layers = 1},
    {.recompute_granularity = "full",
     .recompute_method = "block",
     .has_recompute_num_layers = true,
     .recompute_num_layers = 6},
    {.ac_mode = "full"},
    {.ac_mode = "selective", .ac_option = "1"},
    {.ac_mode = "selective", .ac_option = "0"},
    {.enable_activation_checkpointing = true},
};

static void test_equal_policies(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph)
{
    struct remat_program *first, *other;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, NULL, &all_layers[0], 0, &first));
    for (size_t i = 1; i < sizeof all_layers / sizeof all_layers[0]; i++) {
        MUST_OK(ctx, harness_compile(ctx, arena, graph, NULL, &all_layers[i], 0, &other));
        CHECK(harness_decisions_hash(first) == harness_decisions_hash(other),
              "policy %zu: decisions differ from uniform 1", i);
        CHECK(harness_offsets_hash(first) == harness_offsets_hash(other),
              "policy %zu: offsets differ from uniform 1", i);
    }
    CHECK(first->recomputed_layer_count == 6, "uniform 1 recomputes %u layers of 6",
          first->recomputed_layer_count);
}

static void test_budgets(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_graph *graph)
{
    const struct remat_policy_settings none = {0};
    struct remat_program *free_of_limits, *program;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, NULL, &none, 0, &free_of_limits));
    CHECK(free_of_limits->step_ns == free_of_limits->base_step_ns &&
              remat_program_recomputed(free_of_limits) == 0,
          "without policy and budget something is recomputed");
    uint64_t most = free_of_limits->arena_bytes + free_of_limits->reserve_bytes, previous_ns = 0;
    uint32_t fitting = 0;
    for (uint64_t budget = most; budget > free_of_limits->reserve_bytes;
         budget -= free_of_limits->arena_bytes / 40) {
        remat_status st = harness_compile(ctx, arena, graph, NULL, &none, budget, &program);
        if (st == REMAT_ERROR_INFEASIBLE)
            break;
        MUST_OK(ctx, st);
        fitting++;
        CHECK(program->arena_bytes + program->reserve_bytes <= budget, "budget %llu exceeded",
              (unsigned long long)budget);
        CHECK(program->step_ns >= previous_ns, "a smaller budget gave a faster plan");
        previous_ns = program->step_ns;
    }
    CHECK(fitting > 5, "only %u budgets fit", fitting);

    char refusal[1024];
    for (int k = 0; k < 2; k++) { /* a budget below the reserve is refused in the same words */
        uint64_t budget = k ? 1 : free_of_limits->reserve_bytes + 1;
        remat_status st = harness_compile(ctx, arena, graph, NULL, &none, budget, &program);
        snprintf(refusal, sizeof refusal, "%s", remat_context_message(ctx));
        CHECK(st == REMAT_ERROR_INFEASIBLE && strstr(refusal, " needs "), "status %d: %s", st,
              refusal);
    }
    const char *needs = strstr(refusal, " needs ");
    uint64_t least = needs ? strtoull(needs + strlen(" needs "), NULL, 10) : 0;
    CHECK(harness_compile(ctx, arena, graph, NULL, &none, least - 1, &program) ==
              REMAT_ERROR_INFEASIBLE,
          "one byte less than %llu fits", (unsigned long long)least);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, NULL, &none, least, &program));
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const struct remat_graph *graph = harness_model(
        ctx, &arena, "gpt2-tiny", (struct remat_model_settings){.batch = 4, .seq = 128});
    test_equal_policies(ctx, &arena, graph);
    test_budgets(ctx, &arena, graph);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
