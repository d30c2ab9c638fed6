/* SPDX-License-Identifier: Apache-2.0 */
/* Bits and peak for every pair of settings: the rows below are a list in which any two settings
 * occur together, which is checked. With the argument "all", for the full product (minutes), a line
 * for each: docs/testing.md has the result. */
#include <stdio.h>

#include "check_model.h"

enum { FAMILY, DTYPE, DROPOUT, ATTENTION, MICROBATCHES, FACTOR_COUNT };
#define LEVELS_MAX 4

static const struct {
    uint32_t count;
    const char *names[LEVELS_MAX];
} factors[FACTOR_COUNT] = {
    [FAMILY] = {4, {"gpt2", "llama", "bert", "encdec"}},
    [DTYPE] = {2, {"fp32", "bf16"}},
    [DROPOUT] = {2, {"no dropout", "dropout 0.1"}},
    [ATTENTION] = {2, {"fused", "written-out"}},
    [MICROBATCHES] = {3, {"1 microbatch", "2 microbatches", "4 microbatches"}},
};

/* For family f and number of microbatches m, row (f + m) mod 4 of four that have all pairs of the
 * other three settings. */
static const uint8_t rows[][FACTOR_COUNT] = {
    {0, 1, 1, 1, 0}, {0, 1, 0, 0, 1}, {0, 0, 1, 0, 2}, {1, 1, 0, 0, 0},
    {1, 0, 1, 0, 1}, {1, 0, 0, 1, 2}, {2, 0, 1, 0, 0}, {2, 0, 0, 1, 1},
    {2, 1, 1, 1, 2}, {3, 0, 0, 1, 0}, {3, 1, 1, 1, 1}, {3, 1, 0, 0, 2},
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

static bool occurs(uint32_t f, uint32_t a, uint32_t g, uint32_t b)
{
    for (size_t r = 0; r < ROW_COUNT; r++)
        if (rows[r][f] == a && rows[r][g] == b)
            return true;
    return false;
}

static void check_rows(void)
{
    for (uint32_t f = 0; f < FACTOR_COUNT; f++)
        for (uint32_t g = 0; g < f; g++)
            for (uint32_t a = 0; a < factors[f].count; a++)
                for (uint32_t b = 0; b < factors[g].count; b++)
                    CHECK(occurs(f, a, g, b), "no row has %s and %s", factors[f].names[a],
                          factors[g].names[b]);
}

static const struct {
    const char *preset;
    struct remat_model_settings sizes;
} families[] = {
#define SMALL .layers = 4, .width = 24, .vocab = 251, .context = 16, .batch = 4, .seq = 13
    {"gpt2-tiny", {SMALL, .heads = 3}},
    /* with all that its relatives have */
    {"llama-tiny",
     {SMALL, .heads = 6, .kv_heads = 2, .hidden = 70, .head_size = 6, .window = 16,
      .attention_bias = true, .mlp_bias = true, .qk_norm = true, .fused = true}},
    {"bert-tiny", {SMALL, .heads = 3}},
    {"encdec-tiny", {SMALL, .heads = 3, .source_seq = 11}},
};

struct numerics { /* of the rows so far */
    size_t count;
    uint64_t hashes[4 * 2 * 2 * 2 * 3];
};

static void test_row(remat_context *ctx, const uint8_t *row, struct numerics *numerics)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_model_settings sizes = families[row[FAMILY]].sizes;
    sizes.dtype = row[DTYPE] ? REMAT_BF16 : REMAT_F32;
    sizes.dropout = row[DROPOUT] ? 0.1 : 0;
    sizes.written_out = row[ATTENTION] != 0;
    const char *name = remat_arena_format(
        &arena, "%s, %s, %s, %s, %s", factors[FAMILY].names[row[FAMILY]],
        factors[DTYPE].names[row[DTYPE]], factors[DROPOUT].names[row[DROPOUT]],
        factors[ATTENTION].names[row[ATTENTION]], factors[MICROBATCHES].names[row[MICROBATCHES]]);
    struct remat_graph *graph = harness_model(ctx, &arena, families[row[FAMILY]].preset, sizes);
    const struct remat_pass_settings passes = {.microbatches = 1u << row[MICROBATCHES]};
    struct plan_set plans = plans_make(ctx, &arena, graph, &passes);
    struct check_model model = {name, &plans, "selective core_attn", false, false};
    uint64_t hash = check_bits(ctx, &model, 8, 10);
    check_peak(ctx, &model);
    for (size_t k = 0; k < numerics->count; k++)
        CHECK(numerics->hashes[k] != hash, "%s: the numerics_hash of other settings", name);
    numerics->hashes[numerics->count++] = hash;
    remat_arena_release(&arena);
}

/* Whether attention is one kernel or written out is part of the numerics, and nothing else here. */
static void check_attention_forms(remat_context *ctx)
{
    for (uint32_t f = 0; f < factors[FAMILY].count; f++) {
        struct remat_arena arena;
        struct remat_program *programs[2];
        remat_arena_init(&arena, ctx);
        for (int form = 0; form < 2; form++) {
            struct remat_model_settings sizes = families[f].sizes;
            sizes.written_out = form;
            MUST_OK(ctx, harness_compile(ctx, &arena,
                                         harness_model(ctx, &arena, families[f].preset, sizes),
                                         NULL, &named_policies[0].settings, 0, &programs[form]));
        }
        CHECK(programs[0]->numerics_hash != programs[1]->numerics_hash,
              "%s: both forms of attention have one numerics_hash", families[f].preset);
        remat_arena_release(&arena);
    }
}

/* The next row of the full product; false after the last. */
static bool advance(uint8_t *row)
{
    for (uint32_t f = FACTOR_COUNT; f-- > 0; row[f] = 0)
        if (++row[f] < factors[f].count)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct numerics numerics = {0};
    uint8_t row[FACTOR_COUNT] = {0};
    setvbuf(stdout, NULL, _IOLBF, 0); /* a campaign is watched */
    check_rows();
    check_attention_forms(ctx);
    if (argc == 2 && strcmp(argv[1], "all") == 0)
        do
            test_row(ctx, row, &numerics);
        while (advance(row));
    else
        for (size_t r = 0; r < ROW_COUNT; r++)
            test_row(ctx, rows[r], &numerics);
    remat_context_destroy(&ctx);
    return check_exit();
}
