/* SPDX-License-Identifier: Apache-2.0 */
/* The planned peak is the measured one. */
#include "check_model.h"

static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches, bool two_level, bool pitch)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    const struct remat_pass_settings passes = {.microbatches = microbatches};
    struct plan_set plans = plans_make(ctx, &arena, graph, &passes);
    struct check_model model = {preset, &plans, NULL, two_level, pitch};
    check_peak(ctx, &model);
    remat_arena_release(&arena);
}

#define SMALL .layers = 4, .width = 36, .heads = 6, .context = 40, .batch = 3, .seq = 37

/* With an argument: one model alone, for builds with sanitizers. */
int main(int argc, char **argv)
{
    (void)argv;
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL, .vocab = 1031}, 1, false,
               true);
    if (argc == 1) {
        test_model(ctx, "llama-tiny",
                   (struct remat_model_settings){SMALL, .vocab = 257, .kv_heads = 2, .hidden = 90,
                                                 .written_out = true, .dropout = 0.1},
                   4, false, false);
        test_model(ctx, "encdec-tiny",
                   (struct remat_model_settings){SMALL, .vocab = 1037, .source_seq = 21,
                                                 .dtype = REMAT_BF16, .dropout = 0.1,
                                                 .optimizer = {.clip_norm = 0.5}},
                   2, true, true);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
