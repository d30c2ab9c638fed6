/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism in one process: loss and gradients are those of one rank as far as sums in
 * another order allow, dropout masks equal; all plans of a mesh have the same bits; planned memory
 * is used memory; what a transfer brings, and which ids are a rank's, matters. e2e-tensor [small]
 */
#include "passes.h"
#include "tensor_checks.h"

static const struct remat_pass_settings undivided;

static void test_refusals(remat_context *ctx)
{
    const struct tensor_model heads = {"gpt2-tiny", 3, 0,         260,   8,     false,
                                       0,           0, REMAT_F32, false, false, 4};
    const struct tensor_model keys = {"llama-tiny", 4,     2,     260, 8, false, 0, 0,
                                      REMAT_F32,    false, false, 4};
    const struct tensor_model five = {"gpt2-tiny", 4, 0,         260,   8,     false,
                                      0,           0, REMAT_F32, false, false, 4};
    tensor_refuse(ctx, &heads, 1, 2, REMAT_ERROR_INVALID,
                  "value \"h.0.attn.q\": dimension 2, of 3, is not divisible by 2 ranks along tp");
    tensor_refuse(
        ctx, &keys, 1, 4, REMAT_ERROR_INVALID,
        "value \"model.layers.0.attn.k.heads\": dimension 2, of 2, is not divisible by 4 ranks "
        "along tp");
    tensor_refuse(ctx, &five, 1, 5, REMAT_ERROR_INVALID,
                  "of 144 in blocks of 48, is not divisible by 5 ranks along tp");
}

/* Nobody pads a vocabulary in a backward pass. */
static void test_joint_refusal(remat_context *ctx)
{
    const struct remat_policy_settings none = {0};
    const struct tensor_model odd = {"gpt2-tiny", 4, 0,         259,   8,     false,
                                     0,           0, REMAT_F32, false, false, 4};
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, &odd, 1, 2, 1);
    const struct remat_mesh mesh = graph->mesh;
    MUST_OK(ctx, remat_pass_autodiff(&arena, graph, &undivided, &graph));
    graph->mesh = mesh;
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, NULL, &none, 0, &program),
                 REMAT_ERROR_INVALID,
                 "value \"wte.weight\": dimension 0, of 259, is not divisible by 2 ranks along tp: "
                 "remat-graph --make-vocab-size-divisible-by pads it");
    remat_arena_release(&arena);
}

/* With all layers in one unit, what the first one gets is a shard, or made of one; no table of
 * positions, and not what an encoder passes on. */
static void test_distributed(remat_context *ctx, const struct tensor_model *model)
{
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, model, 1, 2, 1);
    const struct remat_pass_settings passes = tensor_passes(model, 2, 1);
    const struct remat_policy_settings policy = {.recompute_granularity = "full",
                                                 .recompute_method = "uniform",
                                                 .has_recompute_num_layers = true,
                                                 .recompute_num_layers = remat_graph_layers(graph),
                                                 .distribute_saved_activations = true};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &policy, 0, &program));
    for (uint32_t d = 0; d < program->decision_count; d++) {
        const struct remat_decision_record *record = &program->decisions[d];
        CHECK(record->action != REMAT_ACTION_PART ||
                  (record->layer < 0 && strcmp(record->op, "rope_table") != 0),
              "%s: %s, a %s of layer %d, is a shard", graph->name, record->name, record->op,
              record->layer);
    }
    CHECK(remat_program_count(program, REMAT_ACTION_PART) > 0, "%s: no shard", graph->name);
    remat_arena_release(&arena);
}

int main(int argc, char **argv)
{
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t m = 0; m < (small ? 1 : 10); m++) {
        struct tensor_model model = tensor_models[m % 5];
        model.dtype = m < 5 ? REMAT_F32 : REMAT_BF16;
        tensor_check_against_one(ctx, &model, 1, 2, 1);
        if (small)
            continue;
        tensor_check_against_one(ctx, &model, 2, 2, 1);
        if (model.kv_heads != 2)
            tensor_check_against_one(ctx, &model, 1, 4, 1);
    }
    struct tensor_model stated = tensor_models[0];
    stated.stated = true;
    tensor_check_against_one(ctx, &stated, 1, 2, 1);
    if (!small) {
        tensor_check_against_one(ctx, &stated, 2, 2, 1);
        tensor_check_against_one(ctx, &tensor_longer, 1, 4, 1);
        tensor_check_against_one(ctx, &tensor_models[0], 1, 2, 2);
        tensor_check_against_one(ctx, &tensor_models[2], 2, 2, 2);
        tensor_check_plans(ctx, &tensor_models[0], 1, 2);
        tensor_check_plans(ctx, &tensor_models[1], 2, 2);
        tensor_check_joint(ctx, &tensor_models[1], 2);
        tensor_check_joint(ctx, &tensor_longer, 4);
        tensor_check_faults(ctx, false);
        test_refusals(ctx);
        test_joint_refusal(ctx);
        for (uint32_t m = 0; m < 5; m++)
            test_distributed(ctx, &tensor_models[m]);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
