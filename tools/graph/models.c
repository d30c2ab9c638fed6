/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

#include "activation.h"
#include "builder.h"
#include "config.h"
#include "model_builder.h"
#include "ops.h"
#include "range.h"
#include "suggest.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* Sizes that not every family has. */
enum {
    HEADS = 1 << 0,
    CONTEXT = 1 << 1,
    HIDDEN = 1 << 2,
    KV_HEADS = 1 << 3,
    SOURCE = 1 << 4,
    HEAD_SIZE = 1 << 5,
    PADDING = 1 << 6, /* of the vocabulary: its tensors have it as axis 0 */
    LEARNED = 1 << 7, /* a parameter has a row for each position */
};
#define COMMON_SIZES (HEADS | CONTEXT | HIDDEN | PADDING)

static const struct model_family {
    uint32_t sizes;
    double epsilon;
    const char *activation;
    void (*build)(struct model_builder *m);
} families[REMAT_FAMILY_COUNT] = {
    [REMAT_FAMILY_mlp] = {0, 1e-5, "gelu_new", remat_model_mlp},
    [REMAT_FAMILY_gpt2] = {COMMON_SIZES | KV_HEADS | LEARNED, 1e-5, "gelu_new", remat_model_gpt2},
    [REMAT_FAMILY_llama] = {COMMON_SIZES | KV_HEADS | HEAD_SIZE, 1e-5, "silu", remat_model_llama},
    [REMAT_FAMILY_bert] = {COMMON_SIZES | LEARNED, 1e-12, "gelu", remat_model_bert},
    [REMAT_FAMILY_encdec] = {COMMON_SIZES | SOURCE, 1e-5, "relu", remat_model_encdec},
};

static const struct remat_model_settings presets[] = {
#define PRESET(preset, of_family, ...)                                                             \
    {.name = preset, .family = REMAT_FAMILY_##of_family, __VA_ARGS__},
#define ALIAS(alias, preset)
#include "models.def"
#undef PRESET
#undef ALIAS
};
static const struct alias {
    const char *name, *preset;
} aliases[] = {
#define PRESET(...)
#define ALIAS(alias, of) {alias, of},
#include "models.def"
#undef PRESET
#undef ALIAS
};
#define PRESET_COUNT (sizeof presets / sizeof presets[0])
#define ALIAS_COUNT  (sizeof aliases / sizeof aliases[0])

/* The products of sizes at these limits, in bytes, stay below 2^63. */
#define SIZE(option, member, most, families)                                                       \
    {                                                                                              \
        option, offsetof(struct remat_model_settings, member), most, families                      \
    }
static const struct size {
    const char *option;
    size_t offset;
    int64_t most;
    uint32_t families; /* 0: all have it */
} sizes[] = {
    SIZE("--layers", layers, 1000, 0),
    SIZE("--width", width, 131072, 0),
    SIZE("--heads", heads, 4096, HEADS),
    SIZE("--kv-heads", kv_heads, 4096, KV_HEADS),
    SIZE("--head-size", head_size, 4096, HEAD_SIZE),
    SIZE("--hidden", hidden, 1048576, HIDDEN),
    SIZE("--vocab", vocab, 1 << 24, 0),
    SIZE("--make-vocab-size-divisible-by", vocab_multiple, 65536, PADDING),
    SIZE("--context", context, 1048576, CONTEXT),
    SIZE("--batch", batch, 65536, 0),
    SIZE("--seq", seq, 1048576, 0),
    SIZE("--source-seq", source_seq, 1048576, SOURCE),
};

/* --- presets --- */

const char *remat_model_name(uint32_t preset)
{
    return preset < PRESET_COUNT ? presets[preset].name : NULL;
}

const char *remat_model_alias(const char *preset)
{
    for (size_t k = 0; k < ALIAS_COUNT; k++)
        if (strcmp(aliases[k].preset, preset) == 0)
            return aliases[k].name;
    return NULL;
}

/* Of presets, aliases and model types. */
static const char *name_at(const void *user, uint32_t i)
{
    (void)user;
    if (i < PRESET_COUNT)
        return presets[i].name;
    i -= PRESET_COUNT;
    return i < ALIAS_COUNT ? aliases[i].name : remat_config_type(i - ALIAS_COUNT);
}

/* The model type of `name`, where no preset has its sizes: the nearest is the type, or the family
 * of that name and `name` says more. NULL: there is none. */
static const char *type_of(const char *name, uint32_t nearest)
{
    bool is_type = nearest >= PRESET_COUNT + ALIAS_COUNT;
    bool is_family = nearest < PRESET_COUNT && presets[nearest].layers == 0 &&
                     strlen(name) > strlen(presets[nearest].name) + 1; /* not "gpt-2" */
    const char *type = NULL;
    for (uint32_t k = 0; (is_type || is_family) && (type = remat_config_type(k)); k++)
        if (strcmp(type, name_at(NULL, nearest)) == 0)
            break;
    return type;
}

/* Hugging Face has models as OWNER/NAME; a folder may be a copy of one. */
static remat_status fail_unknown(remat_context *ctx, const char *given)
{
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    const uint32_t names = PRESET_COUNT + ALIAS_COUNT;
    char config[512];
    snprintf(config, sizeof config, "%.480s/config.json", given);
    if (access(config, F_OK) == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "model '%s' is a folder: did you mean '%s'?",
                           given, config);
    uint32_t types = 0;
    while (remat_config_type(types))
        types++;
    uint32_t nearest = remat_nearest(name, name_at, NULL, names + types);
    const char *type = nearest < names + types ? type_of(name, nearest) : NULL;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "unknown model '%.60s'%s (accepted: the presets of remat-graph --list, or a "
                       "config.json%s%s)",
                       given, type ? "" : remat_suggest("", name, name_at, NULL, names).text,
                       type ? ", such as one of model type " : "", type ? type : "");
}

remat_status remat_model_preset(remat_context *ctx, const char *name,
                                struct remat_model_settings *out)
{
    const char *preset = name;
    for (size_t k = 0; k < ALIAS_COUNT; k++)
        if (strcmp(aliases[k].name, name) == 0)
            preset = aliases[k].preset;
    for (size_t k = 0; k < PRESET_COUNT; k++) {
        if (strcmp(presets[k].name, preset) != 0)
            continue;
        *out = presets[k];
        remat_model_defaults(out);
        return REMAT_OK;
    }
    return fail_unknown(ctx, name);
}

void remat_model_defaults(struct remat_model_settings *s)
{
    s->batch = 1;
    s->dtype = REMAT_F32;
    s->optimizer = (struct remat_optimizer){.kind = REMAT_OPTIMIZER_ADAMW,
                                            .beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .epsilon = 1e-8,
                                            .weight_decay = 0.01};
}

bool remat_model_learns_positions(const struct remat_model_settings *s)
{
    return families[s->family].sizes & LEARNED;
}

/* --- checks --- */

static remat_status check_size(remat_context *ctx, const struct size *size, int64_t value,
                               bool applies, const char *model)
{
    if (!applies && value)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s %lld does not apply to model %s",
                           size->option, (long long)value, model);
    if (applies && value == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s is not given and model %s has no default (accepted: 1 to %lld)",
                           size->option, model, (long long)size->most);
    if (applies && (value < 0 || value > size->most))
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s %lld is out of range (accepted: 1 to %lld)",
                           size->option, (long long)value, (long long)size->most);
    return REMAT_OK;
}

/* How they go together; what is not given is the table's to refuse. */
static remat_status check_heads(remat_context *ctx, const struct remat_model_settings *s)
{
    uint32_t has = families[s->family].sizes;
    if ((has & HEADS) && s->head_size == 0 && s->heads > 0 && s->width % s->heads != 0)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--heads %lld does not divide --width %lld (accepted: divisors of %lld)",
                           (long long)s->heads, (long long)s->width, (long long)s->width);
    if ((has & KV_HEADS) && s->kv_heads > 0 && s->heads % s->kv_heads != 0)
        return remat_error(
            ctx, REMAT_ERROR_USAGE,
            "--kv-heads %lld does not divide --heads %lld (accepted: divisors of %lld)",
            (long long)s->kv_heads, (long long)s->heads, (long long)s->heads);
    if ((has & HEAD_SIZE) && s->head_size % 2 != 0)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--head-size %lld, by default --width / --heads, is odd, which rotary "
                           "positions do not turn (accepted: even sizes)",
                           (long long)s->head_size);
    return REMAT_OK;
}

static remat_status check_sizes(remat_context *ctx, const struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const struct model_family *family = &families[s->family];
    REMAT_TRY(check_heads(ctx, s));
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int64_t value;
        memcpy(&value, (const char *)s + sizes[k].offset, sizeof value);
        bool applies = !sizes[k].families || (family->sizes & sizes[k].families);
        REMAT_TRY(check_size(ctx, &sizes[k], value, applies, s->name));
    }
    if (s->no_bias && s->family != REMAT_FAMILY_gpt2)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--no-bias does not apply to model %s", s->name);
    if (s->family == REMAT_FAMILY_encdec && s->width % 2 != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--width %lld is odd (accepted: even widths)",
                   (long long)s->width);
    if (remat_model_learns_positions(s) && s->seq > s->context)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--seq %lld is above --context %lld (accepted: 1 to %lld)", (long long)s->seq,
                   (long long)s->context, (long long)s->context);
    if (s->lora.rank < 0 || s->lora.rank > 65536)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--lora %lld is out of range (accepted: 1 to 65536)",
                   (long long)s->lora.rank);
    if (s->window > 0 && s->seq > s->window)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--seq %lld is above the model's sliding_window %lld, and attention is not "
                   "computed in windows (accepted: 1 to %lld)",
                   (long long)s->seq, (long long)s->window, (long long)s->window);
    const struct remat_range p = remat_range_of("p");
    if (!remat_range_has(&p, s->dropout))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--dropout %g is out of range (accepted: %s)",
                   s->dropout, remat_range_text(&p).text);
    return REMAT_OK;
fail:
    return st;
}

static remat_status check_optimizer(remat_context *ctx, const struct remat_optimizer *o)
{
    struct remat_optimizer_fault fault;
    char option[32];
    if (!remat_optimizer_find_fault(o, &fault))
        return REMAT_OK;
    snprintf(option, sizeof option, "%s", fault.range.key);
    for (char *c = option; *c; c++)
        if (*c == '_')
            *c = '-';
    return remat_error(ctx, REMAT_ERROR_USAGE, "--%s %g is out of range (accepted: %s)", option,
                       fault.number, remat_range_text(&fault.range).text);
}

/* --- generation --- */

void remat_model_complete(struct remat_model_settings *s)
{
    const struct model_family *family = &families[s->family];
    if (s->seq == 0)
        s->seq = s->context;
    if (s->kv_heads == 0 && (family->sizes & KV_HEADS))
        s->kv_heads = s->heads;
    if (s->head_size == 0 && (family->sizes & HEAD_SIZE) && s->heads > 0 &&
        s->width % s->heads == 0)
        s->head_size = s->width / s->heads;
    if (s->hidden == 0 && (family->sizes & HIDDEN))
        s->hidden = 4 * s->width;
    if (s->vocab_multiple == 0 && (family->sizes & PADDING))
        s->vocab_multiple = 1;
    if (s->token_types == 0)
        s->token_types = 2;
    s->by_output |= s->no_bias;
    if (s->source_seq == 0 && (family->sizes & SOURCE))
        s->source_seq = s->seq;
    if (s->theta == 0)
        s->theta = 1e4;
    if (!s->attention_apart)
        s->attention_dropout = s->dropout;
    if (!s->activation)
        s->activation = remat_activation_find(family->activation);
    if (s->epsilon == 0)
        s->epsilon = family->epsilon;
    if (s->lora.alpha == 0)
        s->lora.alpha = 2 * (double)s->lora.rank;
    if (s->forward_only)
        s->optimizer = (struct remat_optimizer){.kind = REMAT_OPTIMIZER_NONE};
}

remat_status remat_model_generate(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_model_settings *settings,
                                  struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s = *settings;
    struct model_builder m = {.settings = &s,
                              .scope = "",
                              .scale = 1,
                              .prefix = "",
                              .rng = REMAT_NO_VALUE,
                              .positions = REMAT_NO_VALUE};
    remat_model_complete(&s);
    REMAT_TRY(check_sizes(ctx, &s));
    REMAT_TRY(check_optimizer(ctx, &s.optimizer));

    struct remat_graph *graph = remat_graph_create(arena, s.name);
    graph->optimizer = s.optimizer;
    m.b = (struct remat_builder){.arena = arena, .graph = graph};
    families[s.family].build(&m);
    if (s.lora.targets && !m.adapters)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--lora '%.200s' matches no weight of a linear of %s",
                   s.lora.targets, s.name);
    int length;
    const char *idle = s.lora.targets ? remat_model_idle_target(&m, &length) : NULL;
    if (idle)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--lora: '%.*s' matches no weight of a linear of %s",
                   length, idle, s.name);
    REMAT_TRY(remat_model_train(ctx, &s, graph));
    REMAT_TRY(remat_graph_verify(ctx, graph));
    *out = graph;
    return REMAT_OK;
fail:
    return st;
}

/* What trains decays if it is only ever the weight of linears. That leaves out norms, biases,
 * positions and embeddings, also those that are the head's weight too. */
static void leave_out_decay(struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            remat_value v = graph->nodes[n].inputs[k];
            bool weight = graph->nodes[n].op == REMAT_OP_linear && k == 1;
            graph->values[v.i].no_decay |= graph->values[v.i].trainable && !weight;
        }
}

enum mark { DECAY, NO_DECAY, FREEZE };

static void set_mark(struct remat_value_info *parameter, enum mark mark)
{
    if (mark == FREEZE)
        parameter->trainable = false;
    else
        parameter->no_decay = mark == NO_DECAY;
}

static remat_status set_marks(remat_context *ctx, struct remat_graph *graph, const char *option,
                              const struct remat_globs *globs, enum mark mark)
{
    for (uint32_t g = 0; g < globs->count; g++) {
        bool found = false;
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (graph->values[v].role == REMAT_ROLE_PARAMETER &&
                fnmatch(globs->items[g], graph->values[v].name, 0) == 0) {
                set_mark(&graph->values[v], mark);
                found = true;
            }
        if (!found)
            return remat_error(ctx, REMAT_ERROR_USAGE, "%s '%.200s' matches no parameter of %s",
                               option, globs->items[g], graph->name);
    }
    return REMAT_OK;
}

static remat_status check_trained(remat_context *ctx, const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].trainable)
            return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "--freeze leaves nothing to train (--forward-only makes such a graph)");
}

remat_status remat_model_train(remat_context *ctx, const struct remat_model_settings *settings,
                               struct remat_graph *graph)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(set_marks(ctx, graph, "--freeze", &settings->freeze, FREEZE));
    if (settings->optimizer.weight_decay > 0)
        leave_out_decay(graph);
    REMAT_TRY(set_marks(ctx, graph, "--decay", &settings->decay, DECAY));
    REMAT_TRY(set_marks(ctx, graph, "--no-decay", &settings->no_decay, NO_DECAY));
    if (!settings->forward_only)
        REMAT_TRY(check_trained(ctx, graph));
fail:
    return st;
}
