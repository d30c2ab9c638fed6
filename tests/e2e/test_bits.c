/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and gradients have the same bits under every plan. Here the shapes and the settings that
 * test_pairs.c has not. rules.py shows that the comparison notices a broken rule. */
#include "check_model.h"

enum { DEEP = 10 }; /* layers, from which on the smallest plan is two-level */

static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches, uint32_t budgets, uint32_t policies)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    const struct remat_pass_settings passes = {.microbatches = microbatches};
    struct plan_set plans = plans_make(ctx, &arena, graph, &passes);
    struct check_model model = {preset, &plans, NULL, sizes.layers >= DEEP, false};
    check_bits(ctx, &model, budgets, policies);
    remat_arena_release(&arena);
}

/* Reductions over 387 channels, 1548 hidden units, 389 ids, 129 channels of a head, 133 keys and
 * 266 rows: each longer than a tile of 128 elements (266 than a block of 256 rows, 387 than a block
 * of 384 products), none a multiple of 16. */
static const struct remat_model_settings large = {
    .layers = 4, .width = 387, .heads = 3, .vocab = 389, .context = 140, .batch = 2, .seq = 133};

/* The gradient of the positions reduces over the batch. */
#define SEQUENCES(count)                                                                           \
    {                                                                                              \
        .layers = 4, .width = 36, .heads = 4, .vocab = 257, .context = 8, .batch = (count),        \
        .seq = 7                                                                                   \
    }
static const struct remat_model_settings deep = {.layers = DEEP,
                                                 .width = 36,
                                                 .heads = 4,
                                                 .vocab = 257,
                                                 .context = 24,
                                                 .batch = 2,
                                                 .seq = 23,
                                                 .dropout = 0.1};
static const struct remat_model_settings many = SEQUENCES(259), few = SEQUENCES(9);

#define SMALL .layers = 4, .width = 36, .vocab = 257, .context = 24, .batch = 4, .seq = 21
static const struct remat_model_settings
    plain_sgd = {SMALL,
                 .heads = 6,
                 .kv_heads = 2,
                 .hidden = 100,
                 .written_out = true,
                 .optimizer = {.kind = REMAT_OPTIMIZER_SGD, .clip_norm = 0.5}},
    clipped = {SMALL, .heads = 3, .source_seq = 17, .dtype = REMAT_BF16,
               .optimizer = {.clip_norm = 0.5}};

/* States as small as they can be, adapters, and the rest frozen. */
static const struct remat_model_settings adapted = {
    SMALL,
    .heads = 6,
    .kv_heads = 2,
    .hidden = 100,
    .dropout = 0.1,
    .dtype = REMAT_BF16,
    .optimizer = {.clip_norm = 0.5, .no_master = true, .bf16_moments = true},
    .lora = {.rank = 3}};

/* Rows of logits have a pitch. */
static const struct remat_model_settings pitched = {.layers = 4,
                                                    .width = 36,
                                                    .heads = 4,
                                                    .vocab = 1031,
                                                    .context = 8,
                                                    .batch = 3,
                                                    .seq = 7,
                                                    .dtype = REMAT_BF16};

/* With an argument: two small models alone, for builds with sanitizers. */
int main(int argc, char **argv)
{
    (void)argv;
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (argc == 1) {
        test_model(ctx, "gpt2-tiny", large, 1, 8, 10);
        test_model(ctx, "gpt2-tiny", many, 1, 8, 10);
        test_model(ctx, "gpt2-tiny", few, 3, 8, 10);
        test_model(ctx, "gpt2-tiny", pitched, 1, 8, 10);
        test_model(ctx, "llama-tiny", plain_sgd, 1, 8, 10);
        test_model(ctx, "encdec-tiny", clipped, 2, 8, 10);
        test_model(ctx, "llama-tiny", adapted, 2, 8, 10);
    }
    test_model(ctx, "gpt2-tiny", deep, 3, 8, 10);
    test_model(ctx, "mlp-tiny", (struct remat_model_settings){.layers = 4, .width = 65, .batch = 3},
               1, 4, 2);
    remat_context_destroy(&ctx);
    return check_exit();
}
