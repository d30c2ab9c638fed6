/* SPDX-License-Identifier: Apache-2.0 */
/* Sequence parallelism, checked as test_tensor.c does without: sums are the same whether they are
 * gathered at once or later. */
#include "tensor_checks.h"

static bool is_weight_within_layers(const char *name)
{
    return strstr(name, ".weight.grad") && (strstr(name, ".attn.c_") || strstr(name, ".mlp.c_"));
}

/* Sums are the same, whether they are gathered at once or later, so the loss and gradients of what
 * ranks divide have the bits that they have without; those of norms add tokens in another order. */
static void test_same_sums(remat_context *ctx, const struct tensor_model *model, uint32_t tp)
{
    struct tensor_gradients with = {0}, without = {0};
    struct tensor_model plain = *model;
    struct remat_arena arena;
    uint32_t equal = 0, different = 0;
    plain.sequence = false;
    remat_arena_init(&arena, ctx);
    struct ranks_result a = tensor_run(ctx, &arena, model, 1, tp, 1, NULL, &with);
    struct ranks_result b = tensor_run(ctx, &arena, &plain, 1, tp, 1, NULL, &without);
    CHECK(a.loss[0] == b.loss[0], "tp=%u: loss %.9g, without %.9g", tp, (double)a.loss[0],
          (double)b.loss[0]);
    CHECK(a.sent_bytes != b.sent_bytes, "tp=%u: the same transfers", tp);
    for (uint32_t k = 0; k < with.count; k++) {
        const char *name = with.items[k].name;
        uint64_t elements = with.items[k].elements;
        bool same = tensor_distance(with.items[k].data, tensor_find(&without, name, elements),
                                    elements) == 0;
        CHECK(same || !is_weight_within_layers(name), "tp=%u: %s", tp, name);
        *(same ? &equal : &different) += 1;
    }
    CHECK(equal >= 8 && different > 0, "%u gradients are equal, %u are not", equal, different);
    tensor_release(&with);
    tensor_release(&without);
    remat_arena_release(&arena);
}

static void test_sequence_refusals(remat_context *ctx)
{
    const struct remat_policy_settings none = {0};
    const struct tensor_model odd = {"gpt2-tiny", 4, 0,         260,  7,     false,
                                     0,           0, REMAT_F32, true, false, 4};
    struct remat_arena arena;
    struct remat_program *program;
    tensor_refuse(
        ctx, &odd, 4, 2, REMAT_ERROR_INVALID,
        "value \"tokens\": dimensions 0 and 1, of 1 and 7, are a number of tokens that is not "
        "divisible by 2 ranks along tp, as --sequence-parallel needs it");
    remat_arena_init(&arena, ctx);
    const struct remat_pass_settings passes = {.sequence_parallel = true};
    struct remat_graph *unmarked = tensor_make(ctx, &arena, &odd, 4, 2, 1);
    for (uint32_t v = 0; v < unmarked->value_count; v++)
        unmarked->values[v].batched = false;
    unmarked->mesh = (struct remat_mesh){1, {{"tp", 2}}};
    CHECK_STATUS(
        ctx, harness_compile(ctx, &arena, unmarked, &passes, &none, 0, &program),
        REMAT_ERROR_INVALID,
        "--sequence-parallel: no sum over the 2 ranks along tp has a number of tokens that "
        "they divide");
    struct remat_graph *graph = tensor_make(ctx, &arena, &odd, 2, 1, 1);
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program),
                 REMAT_ERROR_USAGE,
                 "--sequence-parallel divides tokens among ranks: it needs --mesh tp=N, N from 2");
    remat_arena_release(&arena);
}

/* Two ranks have one and a half of three sequences each. */
static void test_parts_of_sequences(remat_context *ctx)
{
    for (uint32_t m = 0; m < 5; m++) {
        struct tensor_model model = tensor_models[m];
        model.sequence = true;
        model.sequences = 3;
        tensor_check_against_one(ctx, &model, 1, 2, 1);
    }
    struct tensor_model model = tensor_longer;
    model.sequence = true;
    model.sequences = 3;
    test_same_sums(ctx, &model, 2);
    tensor_check_plans(ctx, &model, 1, 2);
}

/* Four ranks have halves of two sequences, two have whole ones. */
static void test_sequence(remat_context *ctx, bool small)
{
    struct tensor_model model, wide = tensor_longer;
    wide.sequence = true;
    for (uint32_t m = 0; m < 10; m++) {
        model = tensor_models[m % 5];
        model.sequence = true;
        model.dtype = m < 5 ? REMAT_F32 : REMAT_BF16;
        if (!small || m % 2 == 0)
            tensor_check_against_one(ctx, &model, 2, 2, 1);
        if (!small || m % 2 == 1)
            tensor_check_against_one(ctx, &model, 1, model.kv_heads == 2 ? 2 : 4, 2);
    }
    model = tensor_models[0];
    model.sequence = true;
    test_same_sums(ctx, &model, 2);
    model.stated = true;
    tensor_check_against_one(ctx, &model, 1, 2, 1);
    test_same_sums(ctx, &wide, 4);
    if (!small)
        tensor_check_plans(ctx, &wide, 1, 2);
    tensor_check_joint(ctx, &wide, 4);
    model = tensor_models[1];
    model.sequence = true;
    tensor_check_joint(ctx, &model, 2);
    if (!small)
        tensor_check_faults(ctx, true);
    test_sequence_refusals(ctx);
}

/* With an argument, for builds with sanitizers: without planted faults, and of ranks and
 * dtypes each model has two pairs. */
int main(int argc, char **argv)
{
    (void)argv;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    test_sequence(ctx, argc > 1);
    test_parts_of_sequences(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
