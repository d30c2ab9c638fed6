/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters train and decay, adapters, and that nothing is computed for what is frozen. */
#include "check.h"
#include "models.h"
#include "passes.h"

#include <fnmatch.h>
#include <math.h>

static remat_context *ctx;

#define GLOBS(...)                                                                                 \
    {                                                                                              \
        (const char *const[]){__VA_ARGS__}, sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)   \
    }

static struct remat_graph *make(struct remat_arena *arena, const char *preset,
                                struct remat_model_settings change)
{
    struct remat_model_settings s;
    struct remat_graph *graph = NULL;
    MUST(remat_model_preset(ctx, preset, &s) == REMAT_OK);
    s.batch = 3, s.seq = 20; /* so that no activation has the shape of a parameter */
    s.decay = change.decay, s.no_decay = change.no_decay, s.freeze = change.freeze;
    s.lora = change.lora;
    CHECK_OK(ctx, remat_model_generate(ctx, arena, &s, &graph), "%s", preset);
    return graph;
}

static bool is_parameter(const struct remat_value_info *value)
{
    return value->role == REMAT_ROLE_PARAMETER;
}

/* --- decay --- */

static bool matches(const char *name, const char *const *globs, size_t count)
{
    for (size_t g = 0; g < count; g++)
        if (fnmatch(globs[g], name, 0) == 0)
            return true;
    return false;
}

/* Norms, biases and embeddings do not decay, and all else does. */
static void test_decay(struct remat_arena *arena)
{
    static const char *const presets[] = {"mlp-tiny", "gpt2-tiny", "llama-tiny", "bert-tiny",
                                          "encdec-tiny"};
    static const char *const plain[] = {"*norm*",  "*Norm*", "*ln_*", "*.bias",
                                        "*embed*", "wte.*",  "wpe.*", "*shared*"};
    for (size_t p = 0; p < sizeof presets / sizeof *presets; p++) {
        const struct remat_graph *graph = make(arena, presets[p], (struct remat_model_settings){0});
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (is_parameter(&graph->values[v]))
                CHECK(graph->values[v].no_decay ==
                          matches(graph->values[v].name, plain, sizeof plain / sizeof *plain),
                      "%s: %s", presets[p], graph->values[v].name);
    }
}

/* --decay comes before --no-decay. */
static void test_marks(struct remat_arena *arena)
{
    const struct remat_graph *graph =
        make(arena, "gpt2-tiny",
             (struct remat_model_settings){.decay = GLOBS("*"),
                                           .no_decay = GLOBS("*.bias", "h.3.*"),
                                           .freeze = GLOBS("w?e.weight", "h.0.*")});
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (!is_parameter(value))
            continue;
        CHECK(value->no_decay ==
                  (fnmatch("*.bias", value->name, 0) == 0 || strncmp(value->name, "h.3.", 4) == 0),
              "decay of %s", value->name);
        CHECK(value->trainable == (value->name[0] != 'w' && strncmp(value->name, "h.0.", 4) != 0),
              "%s", value->name);
    }
}

/* --- adapters --- */

static const struct remat_value_info *find(const struct remat_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0)
            return &graph->values[v];
    return NULL;
}

static uint32_t count_trained(const struct remat_graph *graph, const char *glob)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].trainable) {
            bool fits = fnmatch(glob, graph->values[v].name, 0) == 0;
            CHECK(fits, "%s trains", graph->values[v].name);
            count++;
        }
    return count;
}

static void test_adapters(struct remat_arena *arena)
{
    static const struct {
        const char *preset;
        uint32_t linears; /* of a layer, encoder's and decoder's together */
    } rows[] = {{"gpt2-tiny", 4}, {"llama-tiny", 7}, {"bert-tiny", 6}, {"encdec-tiny", 16}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const struct remat_graph *graph =
            make(arena, rows[k].preset, (struct remat_model_settings){.lora = {.rank = 4}});
        uint32_t count = count_trained(graph, "*.lora_[AB].weight");
        CHECK(count == 2 * 6 * rows[k].linears, "%s: %u adapters", rows[k].preset, count);
    }
    static const struct { /* as in peft: the same adapters as by a glob of the weights' names */
        const char *preset, *targets, *glob;
        uint32_t linears;
    } named[] = {
        {"llama-tiny", "q_proj", "*.q_proj.weight", 6},
        {"llama-tiny", "q_proj,v_proj", "*.[qv]_proj.weight", 12},
        {"llama-tiny", "self_attn.o_proj,layers.3.mlp.up_proj", "*.o_proj.weight", 7},
        {"gpt2-tiny", "c_proj", "*.c_proj.weight", 12},
        {"gpt2-tiny", "mlp.c_proj", "*.mlp.c_proj.weight", 6},
        {"bert-tiny", "query,dense", "", 6 + 3 * 6 + 1},
        {"encdec-tiny", "encoder_attn.q_proj,fc1", "", 6 + 2 * 6},
    };
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        for (int way = 0; way < (*named[k].glob ? 2 : 1); way++) {
            const char *targets = way ? named[k].glob : named[k].targets;
            const struct remat_graph *graph =
                make(arena, named[k].preset,
                     (struct remat_model_settings){.lora = {.rank = 4, .targets = targets}});
            uint32_t count = count_trained(graph, "*.lora_[AB].weight");
            bool one_more = way && strstr(named[k].targets, "layers.3");
            CHECK(count == 2 * (named[k].linears - one_more), "%s, %s: %u adapters",
                  named[k].preset, targets, count);
        }
    const struct remat_graph *graph =
        make(arena, "gpt2-tiny", (struct remat_model_settings){.lora = {4, "h.[12].*c_attn*", 3}});
    CHECK(count_trained(graph, "h.[12].attn.c_attn.lora_[AB].weight") == 4, "by name");
    const struct remat_value_info *a = find(graph, "h.1.attn.c_attn.lora_A.weight"),
                                  *b = find(graph, "h.1.attn.c_attn.lora_B.weight");
    MUST(a && b);
    CHECK(a->shape.dims[0] == 4 && a->shape.dims[1] == 64 && b->shape.dims[0] == 192 &&
              b->shape.dims[1] == 4,
          "shapes");
    CHECK(a->initializer == REMAT_INIT_NORMAL && a->init_mean == 0 &&
              fabs(a->init_std * a->init_std - 1 / (3.0 * 64)) < 1e-12 &&
              b->initializer == REMAT_INIT_CONSTANT && b->init_mean == 0,
          "initial values");
    CHECK(!a->no_decay && !b->no_decay, "adapters decay as weights do");
}

/* --- the backward pass --- */

static struct remat_graph *differentiate(struct remat_arena *arena, const struct remat_graph *graph)
{
    static remat_status (*const passes[])(struct remat_arena *, const struct remat_graph *,
                                          const struct remat_pass_settings *,
                                          struct remat_graph **) = {
        remat_pass_indices,          remat_pass_autodiff, remat_pass_optimizer,
        remat_pass_eliminate_common, remat_pass_expand,   remat_pass_fold,
        remat_pass_eliminate_dead};
    const struct remat_pass_settings undivided = {0};
    struct remat_graph *next = NULL;
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
        MUST(passes[p](arena, graph, &undivided, &next) == REMAT_OK, "%s",
             remat_context_message(ctx));
        graph = next;
    }
    return next;
}

/* Results of the backward pass that have the shape of a parameter that does not train, or would not
 * with adapters. */
static uint32_t count_gradients(const struct remat_graph *graph, const struct remat_graph *adapted)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (remat_is_none(value->node.i) ||
            graph->nodes[value->node.i].phase != REMAT_PHASE_BACKWARD)
            continue;
        bool like = false;
        for (uint32_t p = 0; p < adapted->value_count; p++)
            like |= is_parameter(&adapted->values[p]) && !adapted->values[p].trainable &&
                    remat_shape_equal(&adapted->values[p].shape, &value->shape);
        count += like;
    }
    return count;
}

static uint32_t count_role(const struct remat_graph *graph, uint8_t role)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        count += graph->values[v].role == role;
    return count;
}

static void test_frozen(struct remat_arena *arena)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    for (size_t k = 0; k < sizeof presets / sizeof *presets; k++) {
        const struct remat_graph *adapted =
            make(arena, presets[k], (struct remat_model_settings){.lora = {.rank = 4}});
        struct remat_graph *whole =
            differentiate(arena, make(arena, presets[k], (struct remat_model_settings){0}));
        struct remat_graph *graph = differentiate(arena, adapted);
        CHECK(count_gradients(whole, adapted) > 6 && count_gradients(graph, adapted) == 0,
              "%s: %u gradients of frozen parameters, %u where all train", presets[k],
              count_gradients(graph, adapted), count_gradients(whole, adapted));
        uint32_t trained = count_trained(adapted, "*.lora_[AB].weight");
        CHECK(count_role(graph, REMAT_ROLE_GRADIENT) == trained, "%s: gradients", presets[k]);
        /* of each m and v, two versions each */
        CHECK(count_role(graph, REMAT_ROLE_OPTIMIZER_STATE) == 4 * trained, "%s: states",
              presets[k]);
    }
}

/* The backward pass ends where nothing before trains. */
static void test_end(struct remat_arena *arena)
{
    struct remat_graph *graph = differentiate(
        arena, make(arena, "llama-tiny",
                    (struct remat_model_settings){
                        .freeze = GLOBS("model.embed_tokens.weight", "model.layers.[0-4].*")}));
    uint32_t backward = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_scope *scope = &graph->scopes[graph->nodes[n].scope.i];
        if (graph->nodes[n].phase != REMAT_PHASE_BACKWARD)
            continue;
        CHECK(scope->layer == -1 || scope->layer == 5, "backward in %s", scope->path);
        backward++;
    }
    CHECK(backward > 20, "%u nodes", backward);
}

/* --- refusals --- */

static void test_refusals(struct remat_arena *arena)
{
    static const char *const nothing[] = {"*.attn.qkv*"}, *const all[] = {"*"};
    const struct remat_globs none = {nothing, 1}, every = {all, 1};
    const struct {
        struct remat_model_settings settings;
        const char *message;
    } rows[] = {
        {{.freeze = none}, "--freeze '*.attn.qkv*' matches no parameter of gpt2-tiny"},
        {{.decay = none}, "--decay '*.attn.qkv*' matches no parameter of gpt2-tiny"},
        {{.no_decay = none}, "--no-decay '*.attn.qkv*' matches no parameter of gpt2-tiny"},
        {{.freeze = every}, "--freeze leaves nothing to train (--forward-only makes such a graph)"},
        {{.lora = {4, "*embed*", 0}},
         "--lora '*embed*' matches no weight of a linear of gpt2-tiny"},
        {{.lora = {4, "attn", 0}}, "--lora 'attn' matches no weight of a linear of gpt2-tiny"},
        {{.lora = {4, "attn,,fc", 0}},
         "--lora 'attn,,fc' matches no weight of a linear of gpt2-tiny"},
        {{.lora = {4, "c_attn,q_proj,c_fc", 0}},
         "--lora: 'q_proj' matches no weight of a linear of gpt2-tiny"},
        {{.lora = {4, "h.0.attn.c_attn,h.9.attn.c_attn", 0}},
         "--lora: 'h.9.attn.c_attn' matches no weight of a linear of gpt2-tiny"},
        {{.lora = {65537, NULL, 0}}, "--lora 65537 is out of range (accepted: 1 to 65536)"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct remat_model_settings s;
        struct remat_graph *graph;
        MUST(remat_model_preset(ctx, "gpt2-tiny", &s) == REMAT_OK);
        s.decay = rows[k].settings.decay, s.no_decay = rows[k].settings.no_decay;
        s.freeze = rows[k].settings.freeze, s.lora = rows[k].settings.lora;
        CHECK_STATUS(ctx, remat_model_generate(ctx, arena, &s, &graph), REMAT_ERROR_USAGE, "",
                     "row %zu", k);
        CHECK(strcmp(remat_context_message(ctx), rows[k].message) == 0, "row %zu: %s", k,
              remat_context_message(ctx));
    }
}

int main(void)
{
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_decay(&arena);
    test_marks(&arena);
    test_adapters(&arena);
    test_frozen(&arena);
    test_end(&arena);
    test_refusals(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
