/* SPDX-License-Identifier: Apache-2.0 */
/* Plans decided value by value, against everything that has a budget to beat, over costs, models
 * and budgets drawn at random: every manual policy, compiled by its own settings, that fits is no
 * faster; less budget is never faster; the arena is within the budget and the simulator finds the
 * recorded peak; no plan is below the bound or the floor; where nothing is found no manual policy
 * fits, and the smallest budget that a refusal names is feasible. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "philox.h"
#include "program.h"

enum { POLICIES_MAX = 64, BUDGETS = 10 };

struct drawn {
    remat_context *ctx;
    struct remat_arena *arena;
    uint32_t seed, draws;
    char name[120];
    const struct remat_graph *graph;
    struct remat_compile_settings settings;
    uint32_t policy_count;
    struct manual {
        char name[40];
        uint64_t budget_bytes, step_ns; /* the smallest budget that it fits into */
    } policies[POLICIES_MAX];
};

/* --- drawing --- */

static uint32_t draw(struct drawn *d, uint32_t below)
{
    uint32_t bits[4];
    philox((const uint32_t[4]){d->draws++}, (const uint32_t[2]){d->seed}, bits);
    return bits[0] % below;
}

/* A power of two from 2^-least to 2^most, in steps of a quarter. */
static double draw_factor(struct drawn *d, uint32_t least, uint32_t most)
{
    return exp2(draw(d, 4 * (least + most) + 1) / 4.0 - least);
}

static void draw_device(struct drawn *d)
{
    static const char *const names[] = {"cpu", "h100-sxm", "h200", "a100-80", "rtx-4090", "b200"};
    struct remat_device_description *device = &d->settings.device;
    const char *name = names[draw(d, sizeof names / sizeof *names)];
    MUST_OK(d->ctx, remat_device_description_read(d->ctx, d->arena, name, 0, device));
    double matmul = draw_factor(d, 3, 3);
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        device->matmul_flops_per_ns[t] *= matmul;
    device->launch_ns *= draw_factor(d, 12, 3); /* small models stand for large ones */
    device->memory_bytes_per_ns *= draw_factor(d, 3, 3);
    device->pointwise_flops_per_ns *= draw_factor(d, 3, 3);
    struct remat_attention_rate *rates[] = {&device->attention_forward,
                                            &device->attention_backward};
    for (int i = 0; i < 2; i++) {
        rates[i]->efficiency = fmin(1, rates[i]->efficiency * draw_factor(d, 3, 3));
        rates[i]->half_keys *= draw_factor(d, 3, 3);
    }
}

static void draw_model(struct drawn *d)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    const char *preset = presets[d->seed % 4];
    struct remat_model_settings s = {.heads = 4, .context = 256};
    s.layers = 1 + draw(d, 8);
    s.width = 32 << draw(d, 3);
    s.vocab = 97 + draw(d, 500);
    s.batch = 2 + 2 * draw(d, 2);
    s.seq = 16 << draw(d, 4);
    s.dtype = draw(d, 2) ? REMAT_BF16 : REMAT_F32;
    s.dropout = draw(d, 2) ? 0.1 : 0;
    s.written_out = draw(d, 2);
    s.optimizer.clip_norm = draw(d, 2) ? 1 : 0;
    struct remat_graph *graph = harness_model(d->ctx, d->arena, preset, s);
    d->graph = graph;
    d->settings.passes.microbatches = 1 + draw(d, 2);
    snprintf(d->name, sizeof d->name,
             "seed %u: %s, %d layers, width %d, batch %d, seq %d, %s%s, %u microbatches, %s",
             d->seed, preset, (int)s.layers, (int)s.width, (int)s.batch, (int)s.seq,
             s.dtype == REMAT_BF16 ? "bf16" : "f32", s.written_out ? ", written out" : "",
             d->settings.passes.microbatches, d->settings.device.name);
}

/* --- manual policies --- */

static void add_manual(struct drawn *d, struct remat_policy_settings policy, const char *name,
                       int64_t number)
{
    struct remat_arena scratch;
    struct remat_program *program;
    struct remat_compile_settings settings = d->settings;
    struct manual *manual = &d->policies[d->policy_count];
    settings.search.policy = policy;
    remat_arena_init(&scratch, d->ctx);
    remat_status st = remat_compile(d->ctx, &scratch, d->graph, &settings, &program);
    if (st == REMAT_OK) {
        snprintf(manual->name, sizeof manual->name, "%s %d", name, (int)number);
        manual->budget_bytes = program->reserve_bytes + program->arena_bytes;
        manual->step_ns = program->step_ns;
        d->policy_count++;
    } else {
        CHECK_STATUS(d->ctx, st, REMAT_ERROR_USAGE, "", "%s, %s %d", d->name, name, (int)number);
    }
    remat_arena_release(&scratch);
}

static void add_manuals(struct drawn *d)
{
    static const char *const modules[] = {"core_attn", "mlp", "layernorm", "core_attn,layernorm",
                                          "core_attn,mlp,layernorm"};
    static const char *const keywords[] = {"every_n_layers=2", "every_n_layers=3"};
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
    uint32_t layers = remat_graph_layers(d->graph);
    add_manual(d, (struct remat_policy_settings){0}, "none", 0);
    for (uint32_t k = 1; k <= layers; k++) {
        struct remat_policy_settings full = {.recompute_granularity = "full",
                                             .recompute_method = "block",
                                             .has_recompute_num_layers = true,
                                             .recompute_num_layers = k};
        add_manual(d, full, "block", k);
        full.recompute_method = "uniform";
        add_manual(d, full, "uniform", k);
        if (k > 1 && k <= 8)
            add_manual(
                d, (struct remat_policy_settings){.ac_mode = "selective", .ac_option = numbers[k]},
                "every", k);
    }
    for (size_t m = 0; m < sizeof modules / sizeof *modules; m++)
        add_manual(d,
                   (struct remat_policy_settings){.recompute_granularity = "selective",
                                                  .recompute_modules = modules[m]},
                   modules[m], 0);
    add_manual(d, (struct remat_policy_settings){.ac_mode = "selective", .ac_option = "op"}, "op",
               0);
    add_manual(d, (struct remat_policy_settings){.selective_checkpointing = "true"}, "attention",
               0);
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
        add_manual(d, (struct remat_policy_settings){.gradient_checkpointing_kwargs = keywords[k]},
                   keywords[k], 0);
}

/* --- one budget --- */

struct outcome {
    bool fits, two_level; /* two-level: some values are recomputed twice */
    uint64_t budget_bytes, step_ns, bound_ns;
};

static void check_fitting(struct drawn *d, uint64_t budget, const struct remat_program *program)
{
    CHECK(program->arena_bytes + program->reserve_bytes <= budget,
          "%s: budget %" PRIu64 " B exceeded by the arena", d->name, budget);
    CHECK(program->arena_bytes >= program->floor_bytes,
          "%s: arena %" PRIu64 " B below the floor %" PRIu64 " B", d->name, program->arena_bytes,
          program->floor_bytes);
    CHECK(program->bound_step_ns > 0 && program->bound_step_ns <= program->step_ns,
          "%s: step of %" PRIu64 " ns, bound %" PRIu64 " ns", d->name, program->step_ns,
          program->bound_step_ns);
    MUST_OK(d->ctx, remat_program_simulate(d->ctx, program));
    for (uint32_t p = 0; p < d->policy_count; p++)
        CHECK(d->policies[p].budget_bytes > budget || d->policies[p].step_ns >= program->step_ns,
              "%s, budget %" PRIu64 " B: %s takes %" PRIu64 " ns and fits, %s %" PRIu64 " ns",
              d->name, budget, d->policies[p].name, d->policies[p].step_ns, program->policy,
              program->step_ns);
}

static void check_refusal(struct drawn *d, uint64_t budget, const char *message)
{
    for (uint32_t p = 0; p < d->policy_count; p++)
        CHECK(d->policies[p].budget_bytes > budget,
              "%s, budget %" PRIu64 " B is refused, but %s fits", d->name, budget,
              d->policies[p].name);
    CHECK(strstr(message, " needs ") != NULL, "%s: %s", d->name, message);
}

static struct outcome compile_for(struct drawn *d, uint64_t budget, uint64_t *needs)
{
    struct outcome outcome = {0};
    struct remat_arena scratch;
    struct remat_program *program;
    struct remat_compile_settings settings = d->settings;
    settings.search.has_budget = true;
    settings.search.budget_bytes = budget;
    remat_arena_init(&scratch, d->ctx);
    remat_status st = remat_compile(d->ctx, &scratch, d->graph, &settings, &program);
    if (st == REMAT_ERROR_INFEASIBLE) {
        const char *at = strstr(remat_context_message(d->ctx), " needs ");
        *needs = at ? strtoull(at + strlen(" needs "), NULL, 10) : 0;
        check_refusal(d, budget, remat_context_message(d->ctx));
    } else {
        MUST_OK(d->ctx, st);
        outcome = (struct outcome){true, remat_program_twice(program) > 0, budget, program->step_ns,
                                   program->bound_step_ns};
        check_fitting(d, budget, program);
    }
    remat_arena_release(&scratch);
    return outcome;
}

/* --- all budgets --- */

static int compare_bytes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Just enough for manual policies, a byte less, and any sizes between. */
static uint32_t list_budgets(struct drawn *d, uint64_t *budgets)
{
    uint64_t most = 0, least = UINT64_MAX;
    uint32_t count = 0;
    for (uint32_t p = 0; p < d->policy_count; p++) {
        most = d->policies[p].budget_bytes > most ? d->policies[p].budget_bytes : most;
        least = d->policies[p].budget_bytes < least ? d->policies[p].budget_bytes : least;
    }
    for (uint32_t i = 0; i < BUDGETS; i++) {
        uint64_t of_policy = d->policies[draw(d, d->policy_count)].budget_bytes;
        budgets[count++] = of_policy;
        if (i % 4 == 0)
            budgets[count++] = of_policy - 1;
        budgets[count++] = most - (most - least) / 1024 * draw(d, 1200);
    }
    qsort(budgets, count, sizeof *budgets, compare_bytes);
    return count;
}

static void check_case(remat_context *ctx, uint32_t seed, uint32_t *fitting, uint32_t *two_level)
{
    struct remat_arena arena;
    struct drawn d = {.ctx = ctx, .arena = &arena, .seed = seed};
    uint64_t budgets[3 * BUDGETS], needs = 0;
    struct outcome last = {0};
    remat_arena_init(&arena, ctx);
    draw_device(&d);
    draw_model(&d);
    add_manuals(&d);
    uint32_t count = list_budgets(&d, budgets);
    for (uint32_t i = 0; i < count; i++) {
        struct outcome now = compile_for(&d, budgets[i], &needs);
        CHECK(now.fits || !last.fits, "%s: %" PRIu64 " B refused, less fits", d.name, budgets[i]);
        CHECK(!last.fits || now.step_ns <= last.step_ns,
              "%s: %" PRIu64 " ns with %" PRIu64 " B, %" PRIu64 " ns with %" PRIu64 " B", d.name,
              now.step_ns, budgets[i], last.step_ns, last.budget_bytes);
        CHECK(!last.fits || now.bound_ns <= last.bound_ns,
              "%s: the bound rises with the budget at %" PRIu64 " B", d.name, budgets[i]);
        last = now;
        *fitting += now.fits;
    }
    compile_for(&d, 1, &needs);
    last = compile_for(&d, needs, &needs);
    CHECK(last.fits, "%s: %" PRIu64 " B were said to be enough", d.name, needs);
    *two_level += last.two_level;
    CHECK(!compile_for(&d, needs - 1, &needs).fits, "%s: %" PRIu64 " B - 1 fits too", d.name,
          needs);
    remat_arena_release(&arena);
}

/* Arguments: the first seed and the number of cases; from 16 on the smallest plans of some are
 * two-level. */
int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 14;
    uint32_t cases = argc > 2 ? (uint32_t)atoi(argv[2]) : 5, fitting = 0, two_level = 0;
    for (uint32_t seed = first; seed < first + cases; seed++)
        check_case(ctx, seed, &fitting, &two_level);
    if (argc < 2) {
        check_figure(fitting, "planner budgets that fit");
        check_figure(two_level, "planner smallest plans that are two-level");
    }
    printf("%u plans of %u models, the smallest of %u two-level\n", fitting, cases, two_level);
    remat_context_destroy(&ctx);
    return check_exit();
}
