/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <stdlib.h>

static const char *const act[] = {"*.mlp.act"};
static const char *const attention[] = {"*/attn/core"};
static const char *const qkv[] = {"*/attn/qkv"};

#define UNIFORM(k)                                                                                 \
    {                                                                                              \
        .recompute_granularity = "full", .recompute_method = "uniform",                            \
        .has_recompute_num_layers = true, .recompute_num_layers = (k)                              \
    }
#define BLOCK(k)                                                                                   \
    {                                                                                              \
        .recompute_granularity = "full", .recompute_method = "block",                              \
        .has_recompute_num_layers = true, .recompute_num_layers = (k)                              \
    }

const struct named_policy named_policies[] = {
    {"none", {0}},
    {"uniform 1", UNIFORM(1)},
    {"uniform 2", UNIFORM(2)},
    {"uniform all", UNIFORM(4)},
    {"block 1", BLOCK(1)},
    {"block 3", BLOCK(3)},
    {"selective core_attn", {.recompute_granularity = "selective"}},
    {"selective mlp", {.recompute_granularity = "selective", .recompute_modules = "mlp"}},
    {"selective layernorm",
     {.recompute_granularity = "selective", .recompute_modules = "layernorm,core_attn"}},
    {"every 2", {.ac_mode = "selective", .ac_option = "2"}},
    {"op", {.ac_mode = "selective", .ac_option = "op"}},
    {"every_n_layers 3", {.gradient_checkpointing_kwargs = "every_n_layers=3"}},
    {"save attention", {.selective_checkpointing = "true"}},
    {"op linear,gelu", {.ac_mode = "selective", .ac_option = "op", .save_ops = "linear,gelu"}},
    {"pin recompute act", {.recompute_count = 1, .recompute = act}},
    {"full, save attention",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .save_count = 1,
      .save = attention}},
    {"pin recompute qkv", {.recompute_count = 1, .recompute = qkv}},
    {"uniform 1 distributed",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .distribute_saved_activations = true}},
};
const unsigned named_policy_count = sizeof named_policies / sizeof named_policies[0];

/* Bytes that a refusal of one byte names. */
static uint64_t smallest_budget(remat_context *ctx, const struct remat_graph *graph,
                                const struct remat_pass_settings *passes)
{
    const struct remat_policy_settings none = {0};
    struct remat_arena scratch;
    struct remat_program *program;
    remat_arena_init(&scratch, ctx);
    remat_status st = harness_compile(ctx, &scratch, graph, passes, &none, 1, &program);
    const char *needs = strstr(remat_context_message(ctx), " needs ");
    MUST(st == REMAT_ERROR_INFEASIBLE && needs, "%s", remat_context_message(ctx));
    uint64_t bytes = strtoull(needs + strlen(" needs "), NULL, 10);
    remat_arena_release(&scratch);
    return bytes;
}

static uint64_t needed_budget(const struct remat_program *program)
{
    return program->arena_bytes + program->reserve_bytes;
}

static void add(struct plan_set *set, const char *name, uint64_t budget_bytes,
                struct remat_program *program)
{
    MUST(set->count < PLANS_MAX, "%s: more than %d plans", name, PLANS_MAX);
    set->items[set->count++] = (struct plan){name, budget_bytes, program};
}

static void add_budgets(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_graph *graph, const struct remat_pass_settings *passes,
                        struct plan_set *set)
{
    const struct remat_policy_settings none = {0};
    struct remat_program *program;
    uint64_t least = smallest_budget(ctx, graph, passes),
             most = needed_budget(set->items[0].program);
    for (uint32_t k = 0; k < PLAN_BUDGETS; k++) {
        uint64_t budget = least + (most - least) * k / (PLAN_BUDGETS - 1);
        MUST_OK(ctx, harness_compile(ctx, arena, graph, passes, &none, budget, &program));
        add(set, remat_arena_format(arena, "budget %llu B", (unsigned long long)budget), budget,
            program);
    }
}

struct plan_set plans_make(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_pass_settings *passes)
{
    struct plan_set set = {0};
    struct remat_program *program;
    for (unsigned i = 0; i < named_policy_count; i++) {
        const struct named_policy *named = &named_policies[i];
        remat_status st = harness_compile(ctx, arena, graph, passes, &named->settings, 0, &program);
        if (st == REMAT_ERROR_USAGE)
            continue; /* it is about what this model or its mesh has not */
        MUST_OK(ctx, st);
        add(&set, named->name, 0, program);
        if (i == 0)
            add_budgets(ctx, arena, graph, passes, &set);
    }
    return set;
}
