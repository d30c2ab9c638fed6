#include <stdio.h>

#include "check.h"
#include "plans.h"

#define STEPS     3
#define PLANS_MAX 32

struct plan_set {
    uint32_t count;
    const char *names[PLANS_MAX];
    struct remat_program *programs[PLANS_MAX];
};

static void add_plan(struct plan_set *set, const char *name, struct remat_program *program)
{
    uint64_t hash = harness_decisions_hash(program);
    for (uint32_t p = 0; p < set->count; p++)
        if (harness_decisions_hash(set->programs[p]) == hash)
            return;
    set->names[set->count] = name;
    set->programs[set->count++] = program;
}

/* Every named policy and budgets between the smallest and the largest, those with distinct
 * decisions. */
static void make_plans(remat_context *ctx, struct remat_arena *arena,
                       const struct check_model *model, struct plan_set *set)
{
    const struct remat_policy_settings none = {0};
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < named_policy_count; i++) {
        struct remat_program *program;
        remat_status st =
            harness_compile(ctx, arena, model->graph, &named_policies[i].settings, 0, 0, &program);
        if (st == REMAT_ERROR_USAGE)
            continue; /* it names an op or a module that this model has not */
        MUST(ctx, st);
        add_plan(set, named_policies[i].name, program);
        uint64_t bytes = program->arena_bytes + program->reserve_bytes;
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    static const char *const names[] = {"budget 30 %", "budget 50 %", "budget 70 %", "budget 90 %"};
    for (int k = 0; k < 4; k++) {
        struct remat_program *program;
        uint64_t budget = least + (most - least) * (uint64_t)(3 + 2 * k) / 10;
        MUST(ctx, harness_compile(ctx, arena, model->graph, &none, budget, 0, &program));
        add_plan(set, names[k], program);
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

static struct run_result run(remat_context *ctx, struct remat_program *program, uint32_t threads,
                             uint32_t broken_rule)
{
    return harness_run(
        ctx, program,
        &(struct run_settings){.threads = threads, .steps = STEPS, .break_rule = broken_rule});
}

uint64_t check_bits(remat_context *ctx, const struct check_model *model, uint32_t distinct)
{
    struct remat_arena arena;
    struct plan_set set = {0};
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, &set);
    harness_check(set.count >= distinct, "%s: %u plans with distinct decisions, expected %u",
                  model->name, set.count, distinct);
    harness_check(!model->policy || has_plan(&set, model->policy), "%s: no plan \"%s\"",
                  model->name, model->policy);
    struct run_result first = run(ctx, set.programs[0], 1, 0);
    uint64_t numerics_hash = set.programs[0]->numerics_hash;
    harness_check(first.gradient_count > 0 && first.loss_hash[0] != first.loss_hash[1],
                  "%s: nothing was hashed", model->name);
    for (uint32_t p = 0; p < set.count; p++) {
        harness_check(set.programs[p]->numerics_hash == numerics_hash,
                      "%s, plan \"%s\": numerics_hash differs", model->name, set.names[p]);
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct run_result other = run(ctx, set.programs[p], threads, 0);
            harness_check(same(&first, &other), "%s, plan \"%s\", %u threads: bits differ",
                          model->name, set.names[p], threads);
        }
    }
    printf("%s: %u distinct plans, loss %.6f, loss hash %016llx\n", model->name, set.count,
           (double)first.loss[0], (unsigned long long)first.loss_hash[0]);
    remat_arena_release(&arena);
    return numerics_hash;
}

void check_rules(remat_context *ctx, const struct check_model *model)
{
    struct remat_arena arena;
    struct plan_set set = {0};
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, &set);
    for (uint32_t rule = 1; rule <= 6; rule++) {
        struct run_result base = run(ctx, set.programs[0], 1, rule);
        bool found = false;
        for (uint32_t p = 0; p < set.count && !found; p++)
            for (uint32_t threads = 1; threads <= 2 && !found; threads++) {
                struct run_result other = run(ctx, set.programs[p], threads, rule);
                found = !same(&base, &other);
            }
        harness_check(found, "%s: rule %u broken, and no comparison of plans noticed", model->name,
                      rule);
    }
    remat_arena_release(&arena);
}
