/* SPDX-License-Identifier: Apache-2.0 */
/* With ZeRO beside an axis "tp" all that is trained has the bits of the same mesh without; with
 * ZeRO-3 and microbatches gradients are added in another order, and are those to rounding.
 * e2e-zero_tensor [all] */
#include "tensor_checks.h"

#include <float.h>
#include <math.h>

enum { STEPS = 3 };

/* Everything is saved, with 1 nothing within layers, and with 3 no gathered parameter. */
static struct remat_program *compile_zero(remat_context *ctx, struct remat_arena *arena,
                                          struct remat_graph *graph,
                                          struct remat_pass_settings passes, uint32_t zero)
{
    static const char *const gathered[] = {"*.gathered"};
    const struct remat_policy_settings policy = {
        .ac_mode = zero == 1 ? "full" : NULL, .recompute_count = zero == 3, .recompute = gathered};
    struct remat_program *program;
    passes.zero = zero;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &policy, 0, &program));
    return program;
}

static const struct remat_program_value *find_tensor(const struct remat_program *program,
                                                     const char *name)
{
    uint32_t t = 0;
    while (t < program->tensor_count && strcmp(program->tensors[t].name, name) != 0)
        t++;
    MUST(t < program->tensor_count, "%s", name);
    return &program->values[program->tensors[t].value];
}

/* Ranks along "dp" keep equal parts of states, and with 3 of parameters and accumulators, which
 * then have the gradient's name; and the rest as it was. */
static void check_kept(const struct tensor_model *model, const struct remat_program *whole,
                       const struct remat_program *divided, uint32_t dp, uint32_t zero)
{
    uint32_t count = 0, twice = 0;
    CHECK(whole->tensor_count == divided->tensor_count, "%s: other tensors", model->preset);
    for (uint32_t t = 0; t < whole->tensor_count; t++) {
        const struct remat_program_value *a = &whole->values[whole->tensors[t].value];
        uint64_t elements = a->bytes / remat_dtype_bytes((remat_dtype)a->dtype);
        bool accumulator = strstr(a->name, ".grad.local") != NULL;
        bool parameter = a->role == REMAT_ROLE_PARAMETER;
        bool divides = elements % dp == 0 && (a->role == REMAT_ROLE_OPTIMIZER_STATE ||
                                              (zero == 3 && (parameter || accumulator)));
        char name[128];
        size_t length = strlen(a->name) - (divides && accumulator ? strlen(".local") : 0);
        snprintf(name, sizeof name, "%.*s", (int)length, a->name);
        const struct remat_program_value *b = find_tensor(divided, name);
        CHECK(b->bytes * (divides ? dp : 1) == a->bytes,
              "%s zero %u: \"%s\" has %llu bytes of %llu", model->preset, zero, a->name,
              (unsigned long long)b->bytes, (unsigned long long)a->bytes);
        count += divides;
        twice += divides && a->whole_rank;
    }
    CHECK(count > twice && twice > 4, "%s zero %u: %u in parts, %u twice", model->preset, zero,
          count, twice);
}

/* A few roundings of parts that hardly cancel. */
static void check_sums(remat_context *ctx, const char *name, const struct remat_program *zero0,
                       struct remat_program *zero3)
{
    struct tensor_gradients a = {0}, b = {0};
    struct ranks_result results[RANKS_MAX];
    const struct ranks_settings whole = {.steps = 1, .keep = tensor_keep, .keep_user = &a},
                                parts = {.steps = 1, .keep = tensor_keep, .keep_user = &b};
    ranks_run(ctx, (struct remat_program *)zero0, &whole, results);
    ranks_run(ctx, zero3, &parts, results);
    CHECK(a.count == b.count && a.count > 4, "%s: %u gradients, %u", name, a.count, b.count);
    for (uint32_t k = 0; k < a.count; k++) {
        const float *x = a.items[k].data;
        const float *y = tensor_find(&b, a.items[k].name, a.items[k].elements);
        float most = 0;
        for (uint64_t i = 0; i < a.items[k].elements; i++)
            most = fmaxf(most, fabsf(x[i]));
        float apart = tensor_distance(x, y, a.items[k].elements);
        CHECK(apart <= 32 * FLT_EPSILON * most, "%s: \"%s\": %g apart, of %g", name,
              a.items[k].name, (double)apart, (double)most);
    }
    tensor_release(&a);
    tensor_release(&b);
}

static void test_zero(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                      uint32_t tp, uint32_t microbatches)
{
    const struct ranks_settings settings = {.steps = STEPS, .paint = true};
    struct ranks_result whole[RANKS_MAX], parts[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, model, dp, tp, microbatches);
    const struct remat_pass_settings passes = tensor_passes(model, tp, microbatches);
    const struct remat_program *zero0 = compile_zero(ctx, &arena, graph, passes, 0);
    ranks_run(ctx, (struct remat_program *)zero0, &settings, whole);
    for (uint32_t zero = 1; zero <= 3; zero += 2) {
        struct remat_program *program = compile_zero(ctx, &arena, graph, passes, zero);
        ranks_run(ctx, program, &settings, parts);
        bool reordered = zero == 3 && microbatches > 1;
        if (reordered)
            check_sums(ctx, model->preset, zero0, program);
        for (uint32_t r = 0; r < dp * tp; r++)
            CHECK(ranks_equal(reordered ? &parts[0] : &whole[0], &parts[r], STEPS) &&
                      parts[r].touched_bytes == program->touched_bytes,
                  "%s dp=%u tp=%u zero %u: rank %u: %s", model->preset, dp, tp, zero, r,
                  parts[r].message);
        CHECK(parts[0].sent_bytes == remat_program_communication(program).sent_bytes,
              "%s zero %u: %llu bytes are sent", model->preset, zero,
              (unsigned long long)parts[0].sent_bytes);
        check_kept(model, zero0, program, dp, zero);
    }
    remat_arena_release(&arena);
}

/* In double, from the gradients: a square goes through at most 300 roundings, 70 (rule 3 of
 * docs/numerics.md, of 4096 elements) for a row, as many over rows, one for each of at most 128
 * gradients, and 7 for each of two gathers; the root halves that, and the factor takes 3 more. */
static double factor_of(const struct tensor_gradients *g, double limit)
{
    double squares = 0;
    for (uint32_t k = 0; k < g->count; k++)
        for (uint64_t i = 0; i < g->items[k].elements; i++)
            squares += (double)g->items[k].data[i] * (double)g->items[k].data[i];
    return fmin(1, limit / (sqrt(squares) + 1e-6));
}

static void test_zero_clipping(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                               uint32_t tp, uint32_t microbatches)
{
    struct tensor_gradients g = {0};
    const struct ranks_settings settings = {.steps = STEPS, .keep = tensor_keep, .keep_user = &g},
                                first = {.steps = 1, .keep = tensor_keep, .keep_user = &g};
    struct ranks_result whole[RANKS_MAX], parts[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, model, dp, tp, microbatches);
    const struct remat_pass_settings passes = tensor_passes(model, tp, microbatches);
    ranks_run(ctx, compile_zero(ctx, &arena, graph, passes, 0), &settings, whole);
    for (uint32_t zero = 1; zero <= 3; zero += 2) {
        struct remat_program *program = compile_zero(ctx, &arena, graph, passes, zero);
        ranks_run(ctx, program, &first, parts);
        double exact = factor_of(&g, model->clip_norm), factor = (double)parts[0].factor;
        CHECK(factor > 0 && factor < 1 && fabs(factor - exact) <= 153 * 0x1p-24 * exact,
              "%s zero %u: factor %.9g, exactly %.9g", model->preset, zero, factor, exact);
        ranks_run(ctx, program, &settings, parts);
        bool reordered = zero == 3 && microbatches > 1;
        CHECK(whole[0].loss[0] == parts[0].loss[0] &&
                  (reordered || whole[0].gradients[0] == parts[0].gradients[0]),
              "%s zero %u: the first step is another", model->preset, zero);
        for (uint32_t r = 0; r < dp * tp; r++)
            CHECK(parts[r].factor == parts[0].factor && ranks_equal(&parts[0], &parts[r], STEPS),
                  "%s zero %u: rank %u", model->preset, zero, r);
    }
    tensor_release(&g);
    remat_arena_release(&arena);
}

/* Every state that is drawn, as on the first rank along "dp". */
static void forget_blocks(struct remat_program *program)
{
    for (uint32_t c = 0; c < program->command_count; c++) {
        struct remat_command *command = &program->commands[c];
        if (program->kernels[command->kernel].kind == REMAT_KERNEL_fill_normal_part &&
            command->operand_end - command->operand_begin == 3)
            command->operand_end--;
    }
}

/* Of an updated parameter, which two ranks gather. */
static void swap_halves(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    char *to = t->to, byte;
    for (uint64_t i = 0; i < t->part_bytes && !exchange && strstr(t->name, ".gathered"); i++) {
        byte = to[i];
        to[i] = to[t->part_bytes + i];
        to[t->part_bytes + i] = byte;
    }
}

static void test_zero_faults(remat_context *ctx)
{
    const struct ranks_tap tap = {swap_halves, NULL};
    struct tensor_model model = tensor_models[0];
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    model.dtype = REMAT_BF16; /* there are masters */
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, &model, 2, 2, 1);
    struct remat_program *program =
        compile_zero(ctx, &arena, graph, tensor_passes(&model, 2, 1), 1);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, good);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .late = true}, bad);
    CHECK(ranks_equal(&good[0], &bad[0], 2) && bad[0].late_count > 0, "late: %u transfers",
          bad[0].late_count);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .tap = &tap}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: blocks in another order");
    forget_blocks(program);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: masters as on the first rank");
    remat_arena_release(&arena);
}

static void test_zero_plans(remat_context *ctx, struct tensor_model model, uint32_t zero)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, &model, 2, 2, 1);
    struct remat_pass_settings passes = tensor_passes(&model, 2, 1);
    passes.zero = zero;
    ranks_check_graph(ctx, &arena, graph, &passes, NULL);
    remat_arena_release(&arena);
}

static void test_all_zero(remat_context *ctx, bool all)
{
    for (uint32_t m = 0; m < (all ? 10 : 4); m++) {
        struct tensor_model model = tensor_models[m % 5];
        model.sequence = m % 3 > 0;
        model.dtype = m % 2 ? REMAT_BF16 : REMAT_F32;
        for (uint32_t microbatches = 1; microbatches <= 2 && model.clip_norm > 0; microbatches++)
            test_zero_clipping(ctx, &model, 2, 2, microbatches);
        model.clip_norm = 0;
        test_zero(ctx, &model, 2, 2, 1 + m % 3 / 2);
        if (all && model.kv_heads != 2)
            test_zero(ctx, &model, 2, 4, 1);
    }
    if (all) {
        test_zero_plans(ctx, tensor_models[0], 1);
        test_zero_plans(ctx, tensor_models[1], 3);
    }
    test_zero_faults(ctx);
}

int main(int argc, char **argv)
{
    (void)argv;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    test_all_zero(ctx, argc > 1);
    remat_context_destroy(&ctx);
    return check_exit();
}
