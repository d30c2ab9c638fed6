/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a batch on a monotone device (device_description.h) holds for all larger batches,
 * with rows that are not aligned too: it is no more than theirs on the device itself, and where
 * nothing fits, nothing larger does. Without that device it would not hold. */
#include "harness.h"

#include <inttypes.h>

enum { BATCH_MAX = 14, BUDGETS = 4 };

static const struct setup {
    const char *preset, *device;
    struct remat_model_settings sizes;
    uint32_t microbatches, ranks, zero;
} setups[] = {
    {"gpt2-tiny", "cpu", {.layers = 2, .seq = 16}, 1, 1, 0},
    {"gpt2-tiny", "h200", {.layers = 2, .seq = 61, .dtype = REMAT_BF16}, 1, 1, 0},
    {"gpt2-tiny",
     "h100-sxm",
     {.layers = 2, .seq = 127, .width = 128, .dtype = REMAT_BF16, .written_out = true},
     1,
     1,
     0},
    {"llama-tiny", "a100-40", {.layers = 2, .seq = 100, .dtype = REMAT_BF16}, 3, 1, 0},
    {"bert-tiny", "b200", {.layers = 2, .seq = 33, .dtype = REMAT_BF16, .dropout = 0.1}, 1, 4, 1},
    {"llama-tiny", "h200", {.layers = 2, .seq = 64, .dtype = REMAT_BF16}, 2, 2, 3},
    {"encdec-tiny", "t4", {.layers = 1, .seq = 31, .source_seq = 17}, 1, 1, 0},
    {"mlp-tiny", "h200", {.layers = 2, .seq = 3, .dtype = REMAT_BF16}, 1, 1, 0},
};

static uint32_t fallen;

static struct remat_compile_settings settings_of(remat_context *ctx, struct remat_arena *arena,
                                                 const struct setup *setup)
{
    struct remat_compile_settings settings = {.has_reserve = true,
                                              .passes.microbatches = setup->microbatches,
                                              .passes.zero = setup->zero};
    if (setup->ranks > 1)
        settings.mesh = (struct remat_mesh){1, {{"dp", setup->ranks}}};
    MUST_OK(ctx, remat_device_description_read(ctx, arena, setup->device, 0, &settings.device));
    return settings;
}

static void find_bounds(remat_context *ctx, const struct setup *setup, uint32_t batch,
                        const uint64_t *budgets, bool monotone, uint64_t *out_ns)
{
    struct remat_arena arena;
    struct remat_model_settings sizes = setup->sizes;
    remat_arena_init(&arena, ctx);
    sizes.batch = batch;
    struct remat_graph *graph = harness_model(ctx, &arena, setup->preset, sizes);
    struct remat_compile_settings settings = settings_of(ctx, &arena, setup);
    settings.search.has_budget = true;
    settings.device.monotone = monotone ? batch : 0; /* which is that of a rank's microbatch */
    for (uint32_t k = 0; k < BUDGETS; k++) {
        settings.search.budget_bytes = budgets[k];
        struct remat_bound bound;
        MUST_OK(ctx, remat_compile_bound(ctx, &arena, graph, &settings, &bound));
        out_ns[k] = bound.step_ns;
    }
    remat_arena_release(&arena);
}

/* From twice the room of everything saved with a middle batch down to a small part of it. */
static void find_budgets(remat_context *ctx, const struct setup *setup, uint64_t *out)
{
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_model_settings sizes = setup->sizes;
    remat_arena_init(&arena, ctx);
    sizes.batch = BATCH_MAX / 2;
    struct remat_graph *graph = harness_model(ctx, &arena, setup->preset, sizes);
    struct remat_compile_settings settings = settings_of(ctx, &arena, setup);
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &program));
    uint64_t transient_bytes = program->arena_bytes - program->static_bytes;
    for (uint32_t k = 0, part = 1; k < BUDGETS; k++, part *= 3)
        out[k] = program->static_bytes + 2 * transient_bytes / part;
    remat_arena_release(&arena);
}

/* 0: nothing fits. */
static bool is_most(uint64_t ns, uint64_t of_larger_ns)
{
    return of_larger_ns == 0 || (ns && ns <= of_larger_ns);
}

static void check(remat_context *ctx, const struct setup *setup)
{
    uint64_t budgets[BUDGETS], exact_before[BUDGETS], ns[BUDGETS], exact[BUDGETS];
    uint64_t most[BUDGETS] = {0}; /* UINT64_MAX: with some smaller batch nothing fits */
    uint32_t fits = 0, too_large = 0;
    find_budgets(ctx, setup, budgets);
    for (uint32_t batch = 2; batch <= BATCH_MAX; batch++) {
        find_bounds(ctx, setup, batch, budgets, true, ns);
        find_bounds(ctx, setup, batch, budgets, false, exact);
        for (uint32_t k = 0; k < BUDGETS; k++) {
            CHECK(is_most(ns[k], exact[k]) && (ns[k] == 0) == (exact[k] == 0),
                  "%s on %s, batch %" PRIu32 ": %" PRIu64 " ns, %" PRIu64 " on the device itself",
                  setup->preset, setup->device, batch, ns[k], exact[k]);
            CHECK(most[k] <= (exact[k] ? exact[k] : UINT64_MAX),
                  "%s on %s: %" PRIu64 " ns with batch %" PRIu32 ", %" PRIu64 " with a smaller one",
                  setup->preset, setup->device, exact[k], batch, most[k]);
            most[k] = ns[k] == 0 ? UINT64_MAX : ns[k] > most[k] ? ns[k] : most[k];
            fallen += batch > 2 && !is_most(exact_before[k], exact[k]);
            fits += ns[k] != 0;
            too_large += ns[k] == 0;
        }
        memcpy(exact_before, exact, sizeof exact_before);
    }
    CHECK(fits > 0 && too_large > 0, "%s on %s: of all budgets %" PRIu32 " are too small",
          setup->preset, setup->device, too_large);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
        check(ctx, &setups[i]);
    check_figure(fallen, "larger bounds on devices themselves that fall");
    remat_context_destroy(&ctx);
    return check_exit();
}
