/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored from the forward to the backward pass, read off compiled plans layer by layer,
 * equals the formulas of Korthikanti et al., "Reducing Activation Recomputation in Large
 * Transformer Models" (arXiv 2205.05198, sections 4 and 5), for the four models of its table 3;
 * less what we do not store and plus what we do, each a row of `terms`. */
#include <inttypes.h>
#include <stdio.h>

#include "boundary.h"

struct configuration { /* table 3, b the microbatch; v is the paper's vocabulary */
    const char *name;
    int64_t a, h, layers, s, b;
};
static const struct configuration configurations[] = {
    {"22B", 64, 6144, 48, 2048, 4},
    {"175B", 96, 12288, 96, 2048, 1},
    {"530B", 128, 20480, 105, 2048, 1},
    {"1T", 160, 25600, 128, 2048, 1},
};
#define VOCAB 51200

enum { RANKS = 8 }; /* along tp */

enum { NONE = 1, SELECTIVE = 2, FULL = 4, ALL = 7 };
static const struct {
    int mask;
    const char *name;
    struct remat_policy_settings settings;
} plans[] = {
    {NONE, "none", {0}},
    {SELECTIVE, "selective", {.recompute_granularity = "selective"}},
    {FULL, "full", {.recompute_granularity = "full", .recompute_method = "uniform"}},
    {0, /* of several ranks alone */
     "full, distributed",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .distribute_saved_activations = true}},
};

/* Bytes: `sbh` for each token and channel, `as2b` for each head and pair of tokens of a sequence,
 * `sb` for each token, `sbv` for each token and id of the vocabulary, `s` for each position, `one`
 * once. */
struct term {
    int plans;
    bool without_dropout; /* counts only there */
    const char *name;
    int64_t sbh, as2b, sb, sbv, s, one;
};
static const struct term layer_terms[] = {
    {NONE | SELECTIVE, false, "the paper: sbh (34 + 5as/h)", .sbh = 34, .as2b = 5},
    {NONE | SELECTIVE, false, "masks of two dropouts before the residuals: regenerated", .sbh = -2},
    {NONE | SELECTIVE, false, "mask of the dropout of the softmax: regenerated", .as2b = -1},
    {NONE | SELECTIVE, true, "dropout of the softmax has no result", .as2b = -2},
    {NONE | SELECTIVE, false, "mean and 1 / deviation of two norms, f32", .sb = 16},
    {SELECTIVE, false, "the paper: 5as^2b are recomputed", .as2b = -5},
    {SELECTIVE, false, "of those the mask was not stored", .as2b = 1},
    {SELECTIVE, true, "nor was a result of dropout", .as2b = 2},
    {FULL, false, "the paper: 2sbh", .sbh = 2},
};
/* The paper counts a layer's input, here its output is in it: so the input of the first layer is
 * outside, and that of the last norm is not. */
static const struct term outside_terms[] = {
    {ALL, false, "the paper: input of the last norm; here of the first layer", .sbh = 2},
    {ALL, false, "the paper: input of the head", .sbh = 2},
    {ALL, false, "the paper: logits, f32", .sbv = 4},
    {ALL, false, "logits have 16 bits", .sbv = -2},
    {ALL, false, "the paper: mask of the embedding's dropout", .sbh = 1},
    {ALL, false, "regenerated", .sbh = -1},
    {ALL, false, "mean and 1 / deviation of the last norm, f32", .sb = 8},
    {ALL, false, "logarithm of the sum of the softmax over the vocabulary, f32", .sb = 4},
    {ALL, false, "positions that the causal mask compares, f32", .s = 4},
    {ALL, false, "coefficients of AdamW in this step: 4 of f32", .one = 16},
};

static int64_t expected_bytes(const struct configuration *c, const struct term *terms, size_t count,
                              int plan, bool dropout)
{
    int64_t sum = 0;
    for (const struct term *t = terms; t < terms + count; t++)
        if ((t->plans & plan) && !(t->without_dropout && dropout))
            sum += c->s * c->b * (t->sbh * c->h + t->sb + t->sbv * VOCAB) +
                   t->as2b * c->a * c->s * c->s * c->b + t->s * c->s + t->one;
    return sum;
}

struct stored { /* by a layer, across the boundary */
    int64_t bytes;
    struct remat_text list; /* for a message */
};

/* stored[1 + layer]; stored[0]: outside of layers. */
static struct stored *measure(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program)
{
    const uint32_t *holder = boundary_values(ctx, arena, program);
    struct stored *stored = harness_array(ctx, arena, program->layer_count + 1, sizeof *stored);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        if (holder[b] == REMAT_NONE)
            continue;
        const struct remat_program_value *value = &program->values[holder[b]];
        struct stored *layer = &stored[1 + value->layer];
        layer->bytes += (int64_t)program->buffers[b].bytes;
        layer->list.arena = arena;
        remat_text_append(&layer->list, " %s (%" PRIu64 " B)", value->name,
                          program->buffers[b].bytes);
    }
    return stored;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct remat_graph *make_graph(remat_context *ctx, struct remat_arena *arena,
                                      const struct configuration *c, int64_t layers, bool dropout)
{
    return harness_model(ctx, arena, "gpt2",
                         (struct remat_model_settings){.layers = layers,
                                                       .width = c->h,
                                                       .heads = c->a,
                                                       .vocab = VOCAB,
                                                       .context = c->s,
                                                       .batch = c->b,
                                                       .seq = c->s,
                                                       .dtype = REMAT_BF16,
                                                       .dropout = dropout ? 0.1 : 0,
                                                       .written_out = true});
}

static void test_plan(remat_context *ctx, const struct configuration *c, bool dropout, size_t plan)
{
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    const struct remat_graph *graph = make_graph(ctx, &arena, c, c->layers, dropout);
    struct remat_compile_settings settings = {.search.policy = plans[plan].settings};
    /* a step of 1T parameters takes a CPU longer than a plan may */
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "h200", 0, &settings.device));
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &program));
    const struct stored *stored = measure(ctx, &arena, program);
    for (int64_t k = 0; k <= c->layers; k++) {
        const struct term *terms = k ? layer_terms : outside_terms;
        size_t count = k ? COUNT(layer_terms) : COUNT(outside_terms);
        int64_t expected = expected_bytes(c, terms, count, plans[plan].mask, dropout);
        CHECK(stored[k].bytes == expected,
              "%s, %s, dropout %d, layer %" PRId64 ": %" PRId64 " B, expected %" PRId64 " B:%s",
              c->name, plans[plan].name, dropout, k - 1, stored[k].bytes, expected,
              stored[k].list.items ? stored[k].list.items : " nothing");
    }
    printf("%s, %s, dropout %d: %" PRId64 " B a layer, %" PRId64 " B outside\n", c->name,
           plans[plan].name, dropout, stored[1].bytes, stored[0].bytes);
    remat_arena_release(&arena);
}

/* --- divided among ranks along tp --- */

static struct remat_program *compile_divided(remat_context *ctx, struct remat_arena *arena,
                                             const struct configuration *c, int64_t layers,
                                             size_t plan, bool sequence)
{
    struct remat_compile_settings settings = {.search.policy = plans[plan].settings,
                                              .mesh = {1, {{"tp", RANKS}}},
                                              .passes.sequence_parallel = sequence};
    struct remat_program *program;
    MUST_OK(ctx, remat_device_description_read(ctx, arena, "h200", 0, &settings.device));
    MUST_OK(ctx, remat_compile(ctx, arena, make_graph(ctx, arena, c, layers, true), &settings,
                               &program));
    return program;
}

static void test_divided(remat_context *ctx, const struct configuration *c, size_t plan,
                         bool sequence, int64_t expected)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const struct stored *stored =
        measure(ctx, &arena, compile_divided(ctx, &arena, c, 2, plan, sequence));
    int64_t last = plans[plan].settings.distribute_saved_activations ? 1 : 2;
    for (int64_t k = 1; k <= last; k++) /* what no layer reads is no layer's input */
        CHECK(stored[k].bytes == expected,
              "%s, %s, sequence parallel %d, layer %" PRId64 ": %" PRId64 " B, expected %" PRId64
              " B:%s",
              c->name, plans[plan].name, sequence, k - 1, stored[k].bytes, expected,
              stored[k].list.items ? stored[k].list.items : " nothing");
    remat_arena_release(&arena);
}

/* A layer more sends so many bytes more. */
static void test_sent(remat_context *ctx, const struct configuration *c, size_t plan, bool sequence,
                      int64_t expected)
{
    int64_t sent[2];
    for (int64_t k = 0; k < 2; k++) {
        struct remat_arena arena;
        remat_arena_init(&arena, ctx);
        sent[k] = (int64_t)remat_program_communication(
                      compile_divided(ctx, &arena, c, 2 + k, plan, sequence))
                      .sent_bytes;
        remat_arena_release(&arena);
    }
    CHECK(sent[1] - sent[0] == expected,
          "%s, %s, sequence parallel %d: a layer sends %" PRId64 " B, expected %" PRId64 " B",
          c->name, plans[plan].name, sequence, sent[1] - sent[0], expected);
}

/* The paper: sbh (10 + 24/t), and with sequence parallelism 34 sbh/t, less masks, plus statistics;
 * 2 sbh, which are 2 sbh/t. Eight exchanges and gathers of 2 sbh, two more where the inputs of
 * matmuls are gathered again or the first of two sums is recomputed, one more where the input is a
 * shard, and six vectors of gradients from all ranks. */
static void test_ranks(remat_context *ctx, const struct configuration *c)
{
    enum { T = RANKS, NO = 0, SEL = 1, LAYERS = 2, SHARDS = 3 }; /* of plans */
    int64_t sb = c->s * c->b, sbh = sb * c->h;
    int64_t transfer = 2 * sbh * (T - 1) / T, small = 6 * (T - 1) * 4 * c->h; /* f32 */
    test_divided(ctx, c, SEL, false, sbh * 10 + sbh * 24 / T - 2 * sbh + 16 * sb);
    test_divided(ctx, c, SEL, true, (34 * sbh - 2 * sbh + 16 * sb) / T);
    test_divided(ctx, c, LAYERS, false, 2 * sbh);
    test_divided(ctx, c, LAYERS, true, 2 * sbh / T);
    test_divided(ctx, c, SHARDS, false, 2 * sbh / T);
    test_sent(ctx, c, NO, false, 8 * transfer);
    test_sent(ctx, c, NO, true, 8 * transfer + small);
    test_sent(ctx, c, SEL, true, 10 * transfer + small);
    test_sent(ctx, c, LAYERS, false, 10 * transfer);
    test_sent(ctx, c, SHARDS, false, 11 * transfer);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (size_t c = 0; c < COUNT(configurations); c++)
        test_ranks(ctx, &configurations[c]);
    for (size_t c = 0; c < COUNT(configurations); c++)
        for (int dropout = 0; dropout <= 1; dropout++)
            for (size_t plan = 0; plan < COUNT(plans) && plans[plan].mask; plan++)
                test_plan(ctx, &configurations[c], dropout, plan);
    remat_context_destroy(&ctx);
    return check_exit();
}
