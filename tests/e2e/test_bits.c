/* Loss and gradients have the same bits under every plan, with 1 and 2 threads, over several steps;
 * and each switch that breaks a rule of docs/numerics.md makes that comparison fail. */
#include <stdio.h>

#include "harness.h"
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
                       const struct remat_graph *graph, struct plan_set *set)
{ /* a policy that the model has no use for is refused, and left out */
    const struct remat_policy_settings none = {0};
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < named_policy_count; i++) {
        struct remat_program *program;
        remat_status st =
            harness_compile(ctx, arena, graph, &named_policies[i].settings, 0, 0, &program);
        if (st == REMAT_ERROR_USAGE)
            continue; /* it names an op that this model has not */
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
        MUST(ctx, harness_compile(ctx, arena, graph, &none, budget, 0, &program));
        add_plan(set, names[k], program);
    }
}

static bool same(const struct run_result *a, const struct run_result *b)
{
    return memcmp(a->loss_hash, b->loss_hash, sizeof a->loss_hash) == 0 &&
           memcmp(a->gradient_hash, b->gradient_hash, sizeof a->gradient_hash) == 0;
}

static void test_shape(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches, uint32_t distinct, bool switches)
{
    struct remat_arena arena;
    struct plan_set set = {0};
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    graph->microbatches = microbatches;
    make_plans(ctx, &arena, graph, &set);
    harness_check(set.count >= distinct, "%s: %u plans with distinct decisions, expected %u",
                  preset, set.count, distinct);
    struct run_result first =
        harness_run(ctx, set.programs[0], &(struct run_settings){.threads = 1, .steps = STEPS});
    harness_check(first.gradient_count > 0 && first.loss_hash[0] != first.loss_hash[1],
                  "%s: nothing was hashed", preset);
    for (uint32_t p = 0; p < set.count; p++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct run_result run = harness_run(
                ctx, set.programs[p], &(struct run_settings){.threads = threads, .steps = STEPS});
            harness_check(set.programs[p]->numerics_hash == set.programs[0]->numerics_hash,
                          "%s: numerics_hash differs", set.names[p]);
            harness_check(same(&first, &run), "%s, plan \"%s\", %u threads: bits differ", preset,
                          set.names[p], threads);
        }
    for (uint32_t rule = 1; switches && rule <= 6; rule++) {
        uint32_t found = 0;
        for (uint32_t p = 0; p < set.count && !found; p++)
            for (uint32_t threads = 1; threads <= 2 && !found; threads++) {
                struct run_result run = harness_run(
                    ctx, set.programs[p],
                    &(struct run_settings){.threads = threads, .steps = 2, .break_rule = rule});
                struct run_result base = harness_run(
                    ctx, set.programs[0],
                    &(struct run_settings){.threads = 1, .steps = 2, .break_rule = rule});
                found = !same(&base, &run);
            }
        harness_check(found, "%s: rule %u broken, and no comparison of plans noticed", preset,
                      rule);
    }
    printf("%s, %u microbatches: %u distinct plans, loss %.6f, loss hash %016llx\n", preset,
           microbatches, set.count, (double)first.loss[0], (unsigned long long)first.loss_hash[0]);
    remat_arena_release(&arena);
}

#define SMALL .layers = 4, .width = 36, .vocab = 257, .context = 24, .batch = 3, .seq = 21

/* Every family, and every setting that changes the graph. */
static const struct {
    const char *preset;
    struct remat_model_settings sizes;
    uint32_t microbatches;
} families[] = {
    {"llama-tiny", {SMALL, .heads = 6, .kv_heads = 2, .hidden = 100}, 2},
    {"bert-tiny", {SMALL, .heads = 3}, 1},
    {"encdec-tiny", {SMALL, .heads = 3, .source_seq = 17}, 4},
    {"gpt2-tiny", {SMALL, .heads = 3, .written_out = true, .dropout = 0.1}, 2},
    {"llama-tiny",
     {SMALL, .heads = 6, .kv_heads = 2, .hidden = 100, .written_out = true,
      .optimizer = {.kind = REMAT_OPTIMIZER_SGD, .clip_norm = 0.5}},
     1},
    {"gpt2-tiny", {SMALL, .heads = 3, .dtype = REMAT_BF16, .dropout = 0.1}, 4},
    {"llama-tiny", {SMALL, .heads = 6, .kv_heads = 2, .hidden = 100, .dtype = REMAT_BF16}, 1},
    {"bert-tiny", {SMALL, .heads = 3, .dtype = REMAT_BF16, .written_out = true, .dropout = 0.1}, 2},
    {"encdec-tiny",
     {SMALL, .heads = 3, .source_seq = 17, .dtype = REMAT_BF16, .optimizer = {.clip_norm = 0.5}},
     2},
};

/* With an argument: the small shapes alone, for builds with sanitizers. */
int main(int argc, char **argv)
{
    (void)argv;
    remat_context *ctx = remat_context_create(NULL, NULL);
    /* Reductions over 387 channels, 1548 hidden units, 389 ids, 129 channels of a head, 133 keys
     * and 266 rows: each longer than a tile of 128 elements (266 than a block of 256 rows, 387 than
     * a block of 384 products), none a multiple of 16. */
    if (argc == 1)
        test_shape(ctx, "gpt2-tiny",
                   (struct remat_model_settings){.layers = 4,
                                                 .width = 387,
                                                 .heads = 3,
                                                 .vocab = 389,
                                                 .context = 140,
                                                 .batch = 2,
                                                 .seq = 133},
                   1, 12, true);
    /* The gradient of the positions reduces over the batch: 259 sequences. */
    test_shape(ctx, "gpt2-tiny",
               (struct remat_model_settings){.layers = 4,
                                             .width = 36,
                                             .heads = 4,
                                             .vocab = 257,
                                             .context = 8,
                                             .batch = argc == 1 ? 259 : 9,
                                             .seq = 7},
               1, 12, false);
    if (argc == 1)
        for (size_t k = 0; k < sizeof families / sizeof families[0]; k++)
            test_shape(ctx, families[k].preset, families[k].sizes, families[k].microbatches, 8,
                       false);
    test_shape(ctx, "mlp-tiny", (struct remat_model_settings){.layers = 4, .width = 65, .batch = 3},
               1, 3, false);
    remat_context_destroy(&ctx);
    return harness_exit();
}
