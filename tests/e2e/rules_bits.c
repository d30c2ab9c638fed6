/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of plans over a tiny model, by name; rules.py links it with devices that break a
 * rule. Exit code 1 if bits differ. */
#include "check_model.h"

/* Row sums over 193 channels and 257 ids are longer than 64 lanes, column sums over 12 rows longer
 * than 3 rows. Each has dropout. */
#define SIZES                                                                                      \
    .layers = 2, .width = 193, .heads = 1, .vocab = 257, .context = 8, .batch = 2, .seq = 6,       \
    .dropout = 0.1

static const struct {
    const char *name;
    struct remat_model_settings sizes;
} models[] = {
    {"f32", {SIZES}},
    {"bf16", {SIZES, .dtype = REMAT_BF16}},
    {"written-out", {SIZES, .written_out = true}}, /* more values that kernels keep or store */
};
enum { MODELS = sizeof models / sizeof *models };

int main(int argc, char **argv)
{
    size_t m = 0;
    while (m < MODELS && argc == 2 && strcmp(models[m].name, argv[1]) != 0)
        m++;
    MUST(argc == 2 && m < MODELS, "rules_bits f32|bf16|written-out");
    struct remat_arena arena;
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_arena_init(&arena, ctx);
    const struct plan_set plans =
        plans_make(ctx, &arena, harness_model(ctx, &arena, "gpt2-tiny", models[m].sizes), NULL);
    const struct check_model model = {.name = models[m].name, .plans = &plans};
    check_bits(ctx, &model, 4, 4);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
