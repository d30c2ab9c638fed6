/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "check_model.h"
#include "plans.h"

#define STEPS 3

struct plan_set {
    uint32_t count, budgeted, two_level; /* of these, by a budget, and with two-level values */
    const char *names[PLAN_REQUESTS_MAX];
    struct remat_program *programs[PLAN_REQUESTS_MAX];
};

/* The requested plans with distinct decisions; the first has everything saved. */
static void make_plans(remat_context *ctx, struct remat_arena *arena,
                       const struct check_model *model, struct plan_set *set)
{
    struct plan_request requests[PLAN_REQUESTS_MAX];
    uint32_t count = plan_requests(ctx, arena, model->graph, requests);
    for (uint32_t i = 0; i < count; i++) {
        struct remat_program *program = plan_compile(ctx, arena, model->graph, &requests[i]);
        uint64_t hash = harness_decisions_hash(program);
        bool is_new = true;
        for (uint32_t p = 0; p < set->count; p++)
            is_new &= harness_decisions_hash(set->programs[p]) != hash;
        if (!is_new)
            continue;
        set->names[set->count] = requests[i].name;
        set->programs[set->count++] = program;
        set->budgeted += requests[i].budget_bytes > 0;
        set->two_level += remat_program_twice(program) > 0;
    }
}

static bool has_plan(const struct plan_set *set, const char *name)
{
    for (uint32_t p = 0; p < set->count; p++)
        if (strcmp(set->names[p], name) == 0)
            return true;
    return false;
}

static bool same(const struct run_result *a, const struct run_result *b)
{
    return memcmp(a->loss_hash, b->loss_hash, sizeof a->loss_hash) == 0 &&
           memcmp(a->gradient_hash, b->gradient_hash, sizeof a->gradient_hash) == 0;
}

static struct run_result run(remat_context *ctx, struct remat_program *program, uint32_t threads)
{
    return harness_run(ctx, program, &(struct run_settings){.threads = threads, .steps = STEPS});
}

uint64_t check_bits(remat_context *ctx, const struct check_model *model, uint32_t budgets,
                    uint32_t policies)
{
    struct remat_arena arena;
    struct plan_set set = {0};
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, &set);
    CHECK(set.budgeted >= budgets && set.count >= set.budgeted + policies,
          "%s: of %u plans with distinct decisions %u are by budgets", model->name, set.count,
          set.budgeted);
    CHECK(!model->policy || has_plan(&set, model->policy), "%s: no plan \"%s\"", model->name,
          model->policy);
    CHECK(!model->two_level || set.two_level > 0, "%s: no plan is two-level", model->name);
    struct run_result first = run(ctx, set.programs[0], 1);
    uint64_t numerics_hash = set.programs[0]->numerics_hash;
    CHECK(first.gradient_count > 0 && first.loss_hash[0] != first.loss_hash[1],
          "%s: nothing was hashed", model->name);
    for (uint32_t p = 0; p < set.count; p++) {
        CHECK(set.programs[p]->numerics_hash == numerics_hash,
              "%s, plan \"%s\": numerics_hash differs", model->name, set.names[p]);
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct run_result other = run(ctx, set.programs[p], threads);
            CHECK(same(&first, &other), "%s, plan \"%s\", %u threads: bits differ", model->name,
                  set.names[p], threads);
        }
    }
    printf(
        "%s: %u distinct plans, %u of them by budgets, %u with two-level values, loss %.6f, loss "
        "hash %016llx\n",
        model->name, set.count, set.budgeted, set.two_level, (double)first.loss[0],
        (unsigned long long)first.loss_hash[0]);
    remat_arena_release(&arena);
    return numerics_hash;
}
