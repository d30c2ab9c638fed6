/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "check_model.h"

#define STEPS 2

struct distinct {
    uint32_t count, budgeted, two_level; /* of these, by a budget, and with two-level values */
    const struct plan *plans[PLANS_MAX];
};

/* Those with decisions of their own; the first has everything saved. */
static struct distinct find_distinct(const struct plan_set *plans)
{
    struct distinct set = {0};
    for (uint32_t i = 0; i < plans->count; i++) {
        const struct plan *plan = &plans->items[i];
        uint64_t hash = harness_decisions_hash(plan->program);
        bool is_new = true;
        for (uint32_t p = 0; p < set.count; p++)
            is_new &= harness_decisions_hash(set.plans[p]->program) != hash;
        if (!is_new)
            continue;
        set.plans[set.count++] = plan;
        set.budgeted += plan->budget_bytes > 0;
        set.two_level += remat_program_twice(plan->program) > 0;
    }
    return set;
}

static bool has_plan(const struct distinct *set, const char *name)
{
    for (uint32_t p = 0; p < set->count; p++)
        if (strcmp(set->plans[p]->name, name) == 0)
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
    const struct distinct set = find_distinct(model->plans);
    CHECK(set.budgeted >= budgets && set.count >= set.budgeted + policies,
          "%s: of %u plans with distinct decisions %u are by budgets", model->name, set.count,
          set.budgeted);
    CHECK(!model->policy || has_plan(&set, model->policy), "%s: no plan \"%s\"", model->name,
          model->policy);
    CHECK(!model->two_level || set.two_level > 0, "%s: no plan is two-level", model->name);
    struct run_result first = run(ctx, set.plans[0]->program, 1);
    uint64_t numerics_hash = set.plans[0]->program->numerics_hash;
    CHECK(first.gradient_count > 0 && first.loss_hash[0] != first.loss_hash[1],
          "%s: nothing was hashed", model->name);
    for (uint32_t p = 0; p < set.count; p++) {
        struct remat_program *program = set.plans[p]->program;
        CHECK(program->numerics_hash == numerics_hash, "%s, plan \"%s\": numerics_hash differs",
              model->name, set.plans[p]->name);
        uint32_t threads = 2 - p % 2;
        struct run_result other = run(ctx, program, threads);
        CHECK(same(&first, &other), "%s, plan \"%s\", %u threads: bits differ", model->name,
              set.plans[p]->name, threads);
    }
    printf(
        "%s: %u distinct plans, %u of them by budgets, %u with two-level values, loss %.6f, loss "
        "hash %016llx\n",
        model->name, set.count, set.budgeted, set.two_level, (double)first.loss[0],
        (unsigned long long)first.loss_hash[0]);
    return numerics_hash;
}
