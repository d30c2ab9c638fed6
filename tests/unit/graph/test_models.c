/* SPDX-License-Identifier: Apache-2.0 */
/* The generator: published sizes, settings that are refused, failing allocations. */
#include "activation.h"
#include "check.h"
#include "models.h"
#include "ops.h"

#include <stdlib.h>

static remat_context *ctx;

static int64_t count_parameters(const struct remat_graph *graph)
{
    int64_t elements = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].role == REMAT_ROLE_PARAMETER)
            elements += remat_shape_elements(&graph->values[v].shape);
    return elements;
}

static uint32_t count_layer_nodes(const struct remat_graph *graph, uint16_t op)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].op == op && graph->scopes[graph->nodes[n].scope.i].layer >= 0;
    return count;
}

static void test_aliases(void)
{
    uint32_t count = 0;
    for (uint32_t k = 0; remat_model_name(k); k++) {
        const char *preset = remat_model_name(k), *alias = remat_model_alias(preset);
        struct remat_model_settings settings;
        if (!alias)
            continue;
        count++;
        CHECK_OK(ctx, remat_model_preset(ctx, alias, &settings), "%s", alias);
        CHECK(strcmp(settings.name, preset) == 0, "%s is %s", alias, settings.name);
    }
    CHECK(count == 4, "%u aliases", count);
}

/* The numbers of parameters that Hugging Face's models report (BERT without its pooler). */
static void test_sizes(struct remat_arena *arena)
{
    static const struct {
        const char *preset;
        int64_t parameters;
        uint32_t layers, linears; /* linears of a layer, encoder's and decoder's together */
    } rows[] = {
        {"gpt2-124m", 124439808, 12, 4},
        {"gpt2-355m", 354823168, 24, 4},
        {"gpt2-774m", 774030080, 36, 4},
        {"gpt2-1558m", 1557611200, 48, 4},
        {"gpt2-tiny", 256 * 64 + 128 * 64 + 6 * 49984 + 2 * 64, 6, 4},
        {"gpt3-175b", 174604259328, 96, 4},
        {"mlp-tiny", 256 * 32 + 2 * (32 * 32 + 32) + 32 * 256 + 256, 2, 1},
        {"llama3.2-1b", 1235814400, 16, 7},
        {"llama3.2-3b", 3212749824, 28, 7},
        {"llama3-8b", 8030261248, 32, 7},
        {"llama3-70b", 70553706496, 80, 7},
        {"llama-tiny", 2 * 256 * 64 + 6 * (6 * 64 * 64 / 2 + 3 * 64 * 176 + 2 * 64) + 64, 6, 7},
        {"bert-base", 109514298, 12, 6},
        {"bert-large", 335174458, 24, 6},
        {"bert-tiny", 256 * 65 + 130 * 64 + 4 * 64 + 64 * 65 + 6 * 49984, 6, 6},
        {"encdec-tiny", 256 * 64 + 6 * (49984 + 49984 + 16640 + 128), 6, 16},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct remat_model_settings settings;
        struct remat_graph *graph = NULL;
        remat_status st = remat_model_preset(ctx, rows[k].preset, &settings);
        st = st ? st : remat_model_generate(ctx, arena, &settings, &graph);
        CHECK_OK(ctx, st, "%s", rows[k].preset);
        if (!graph)
            continue;
        CHECK(count_parameters(graph) == rows[k].parameters, "%s: %lld parameters", rows[k].preset,
              (long long)count_parameters(graph));
        CHECK(remat_graph_layers(graph) == rows[k].layers, "%s: layers", rows[k].preset);
        CHECK(count_layer_nodes(graph, REMAT_OP_linear) == rows[k].linears * rows[k].layers,
              "%s: linears", rows[k].preset);
        CHECK(graph->output_count == 1 &&
                  graph->values[graph->outputs[0].i].role == REMAT_ROLE_OUTPUT,
              "%s: output", rows[k].preset);
    }
}

static void test_refusals(struct remat_arena *arena)
{
    static const struct {
        const char *model;
        int64_t layers, width, heads, vocab, context, batch, seq;
        const char *message;
    } rows[] = {
        {"gpt2", 1, 64, 4, 9, 8, 1, 9, "--seq 9 is above --context 8 (accepted: 1 to 8)"},
        {"gpt2", 1, 64, 5, 9, 8, 1, 8,
         "--heads 5 does not divide --width 64 (accepted: divisors of 64)"},
        {"gpt2", 0, 64, 4, 9, 8, 1, 8,
         "--layers is not given and model gpt2 has no default (accepted: 1 to 1000)"},
        {"gpt2", -1, 64, 4, 9, 8, 1, 8, "--layers -1 is out of range (accepted: 1 to 1000)"},
        {"gpt2", 1, 64, 4, INT64_MAX, 8, 1, 8,
         "--vocab 9223372036854775807 is out of range (accepted: 1 to 16777216)"},
        {"gpt2", 1, 64, 4, 9, 8, 65537, 8, "--batch 65537 is out of range (accepted: 1 to 65536)"},
        {"mlp", 1, 64, 0, 9, 8, 1, 8, "--context 8 does not apply to model mlp"},
        {"llama", 1, 66, 6, 9, 8, 1, 8,
         "--head-size 11, by default --width / --heads, is odd, which rotary positions do not turn "
         "(accepted: even sizes)"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct remat_model_settings s;
        struct remat_graph *graph;
        CHECK_OK(ctx, remat_model_preset(ctx, rows[k].model, &s), "%s", rows[k].model);
        s.layers = rows[k].layers, s.width = rows[k].width, s.heads = rows[k].heads;
        s.vocab = rows[k].vocab, s.context = rows[k].context;
        s.batch = rows[k].batch, s.seq = rows[k].seq;
        CHECK_STATUS(ctx, remat_model_generate(ctx, arena, &s, &graph), REMAT_ERROR_USAGE, "",
                     "row %zu", k);
        CHECK(strcmp(remat_context_message(ctx), rows[k].message) == 0, "row %zu: %s", k,
              remat_context_message(ctx));
    }
}

/* --- symbols --- */

/* Attention, dropout, adapters, dtype, and what relatives of Llama have: what changes the nodes. */
static void choose_form(struct remat_model_settings *s, uint32_t form)
{
    bool relative = form & 8;
    s->written_out = form & 1;
    s->dropout = form & 2 ? 0.1 : 0;
    s->lora.rank = form & 2 ? 3 : 0;
    s->dtype = form & 4 ? REMAT_BF16 : REMAT_F32;
    s->fused = s->qk_norm = s->attention_bias = relative;
    s->head_size = relative ? 24 : 0;
    s->window = relative ? 128 : 0;
    s->activation = relative ? remat_activation_find("tanh") : NULL;
}

static void compare_bound(struct remat_arena *arena, const struct remat_model_settings *from,
                          const struct remat_model_settings *to, const char *what)
{
    struct remat_graph *symbolic = NULL, *bound = NULL, *made = NULL;
    struct remat_model_settings lengths = *to;
    remat_model_complete(&lengths);
    remat_status st = remat_model_generate_symbolic(ctx, arena, from, &symbolic);
    st = st ? st : remat_graph_set_symbol(ctx, symbolic, "batch", lengths.batch);
    st = st ? st : remat_graph_set_symbol(ctx, symbolic, "seq", lengths.seq);
    if (!st && to->family == REMAT_FAMILY_encdec)
        st = remat_graph_set_symbol(ctx, symbolic, "source_seq", lengths.source_seq);
    st = st ? st : remat_graph_bind(ctx, arena, symbolic, &bound);
    st = st ? st : remat_model_generate(ctx, arena, to, &made);
    CHECK_OK(ctx, st, "%s, %s", to->name, what);
    for (uint32_t v = 0; !st && v < made->value_count; v++)
        CHECK(bound->values[v].batched == made->values[v].batched, "%s, %s: %s", to->name, what,
              made->values[v].name);
    if (st == REMAT_OK)
        CHECK(remat_graph_hash(bound) == remat_graph_hash(made), "%s, %s: hashes differ", to->name,
              what);
}

/* A graph made with symbols and bound to lengths is the graph made with these lengths. */
static void test_symbols(struct remat_arena *arena)
{
    static const char *const presets[] = {"mlp-tiny", "gpt2-tiny", "llama-tiny", "bert-tiny",
                                          "encdec-tiny"};
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++)
        for (uint32_t form = 0; form < 16; form++) {
            struct remat_model_settings from, to;
            CHECK_OK(ctx, remat_model_preset(ctx, presets[k], &from), "%s", presets[k]);
            if (form >= 8 && from.family != REMAT_FAMILY_llama)
                continue;
            choose_form(&from, form);
            to = from;
            to.batch = 3, to.seq = 24;
            if (to.family == REMAT_FAMILY_encdec)
                to.source_seq = 40;
            compare_bound(arena, &from, &to, "from the preset's lengths");
            compare_bound(arena, &to, &from, "to the preset's lengths");
            from.seq = 1;
            compare_bound(arena, &from, &to, "from lengths of 1");
            /* every length equals a width */
            from.batch = from.seq = 64;
            compare_bound(arena, &from, &to, "from lengths of 64");
        }
}

static void test_symbol_tables(struct remat_arena *arena)
{
    struct remat_model_settings s;
    struct remat_graph *graph = NULL;
    CHECK_OK(ctx, remat_model_preset(ctx, "gpt2-tiny", &s));
    s.context = 1;
    CHECK(remat_model_generate_symbolic(ctx, arena, &s, &graph) == REMAT_OK &&
              graph->symbol_count == 1 && strcmp(graph->symbols[0].name, "batch") == 0,
          "a context of 1: %s", remat_context_message(ctx));
    CHECK_OK(ctx, remat_model_preset(ctx, "encdec-tiny", &s));
    s.source_seq = 40;
    CHECK(remat_model_generate_symbolic(ctx, arena, &s, &graph) == REMAT_OK &&
              graph->symbol_count == 3 && graph->symbols[0].value == 1 &&
              graph->symbols[1].value == 128 && graph->symbols[2].value == 40 &&
              strcmp(graph->symbols[2].name, "source_seq") == 0,
          "three lengths: %s", remat_context_message(ctx));
}

/* Ops of all activations take what the families give them. */
static void test_activation(struct remat_arena *arena, const char *name)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny"};
    for (uint32_t k = 0; k < 4; k++) {
        struct remat_model_settings s;
        struct remat_graph *graph;
        CHECK_OK(ctx, remat_model_preset(ctx, presets[k / 2], &s));
        s.activation = remat_activation_find(name);
        s.dtype = k % 2 ? REMAT_BF16 : REMAT_F32;
        CHECK(s.activation != NULL, "%s", name);
        CHECK_OK(ctx, remat_model_generate(ctx, arena, &s, &graph), "%s of %s", presets[k / 2],
                 name);
    }
}

static void test_activations(struct remat_arena *arena)
{
    for (const char *rest = remat_activation_names(arena); *rest; rest += strspn(rest, ", ")) {
        size_t length = strcspn(rest, ",");
        test_activation(arena, remat_arena_string(arena, rest, length));
        rest += length;
    }
    CHECK(!remat_activation_find("gelu_10"), "a clipped gelu");
}

/* Every graph that reads the window knows it, so that no binding goes beyond. */
static void test_window(struct remat_arena *arena)
{
    for (uint32_t form = 0; form < 2; form++) {
        struct remat_model_settings s;
        struct remat_graph *graph, *bound;
        CHECK_OK(ctx, remat_model_preset(ctx, "llama-tiny", &s));
        s.written_out = form;
        s.window = 64;
        CHECK_STATUS(ctx, remat_model_generate(ctx, arena, &s, &graph), REMAT_ERROR_USAGE,
                     "--seq 128 is above the model's sliding_window 64");
        s.seq = 64;
        CHECK_OK(ctx, remat_model_generate_symbolic(ctx, arena, &s, &graph));
        CHECK_OK(ctx, remat_graph_set_symbol(ctx, graph, "seq", 65));
        CHECK_STATUS(ctx, remat_graph_bind(ctx, arena, graph, &bound), REMAT_ERROR_INVALID,
                     "a window of 64 keys slides over 65 (accepted: up to 64 keys)");
    }
}

/* The largest accepted sizes overflow nothing. */
static void test_limits(struct remat_arena *arena)
{
    struct remat_model_settings s;
    struct remat_graph *graph;
    CHECK_OK(ctx, remat_model_preset(ctx, "gpt2", &s));
    s.layers = 1, s.width = 131072, s.heads = 4096, s.vocab = 1 << 24;
    s.context = s.seq = 1048576, s.batch = 65536;
    CHECK_OK(ctx, remat_model_generate(ctx, arena, &s, &graph));
}

struct failing {
    int left;
};

static void *reallocate(void *user, void *pointer, size_t bytes)
{
    struct failing *failing = user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return failing->left-- > 0 ? realloc(pointer, bytes) : NULL;
}

static remat_status generate(void *user)
{
    remat_context *own = user;
    struct remat_arena *arena = remat_scratch_open(own);
    struct remat_model_settings s;
    struct remat_graph *graph;
    remat_status st = remat_model_preset(own, "gpt2-124m", &s);
    return st ? st : remat_model_generate_symbolic(own, arena, &s, &graph);
}

/* Every allocation fails once; the arena's blocks are few, so the larger model makes it worthwhile.
 */
static void test_out_of_memory(void)
{
    remat_status st = REMAT_ERROR_MEMORY;
    int n = 1;
    for (; st == REMAT_ERROR_MEMORY && n < 1000; n++) {
        struct failing failing = {n};
        remat_allocator allocator = {reallocate, &failing};
        remat_context *own = remat_context_create(&allocator, NULL);
        st = remat_guard(own, generate, own);
        remat_context_destroy(&own);
    }
    CHECK(st == REMAT_OK && n > 3, "status %d after %d allocations", (int)st, n);
}

int main(void)
{
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_aliases();
    test_sizes(&arena);
    test_refusals(&arena);
    test_symbols(&arena);
    test_symbol_tables(&arena);
    test_activations(&arena);
    test_window(&arena);
    test_limits(&arena);
    test_out_of_memory();
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
