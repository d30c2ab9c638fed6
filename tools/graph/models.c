#include "models.h"

#include "model_builder.h"

#include <stddef.h>

static const struct family {
    bool heads, context; /* whether it has these sizes */
    void (*build)(struct remat_model *m);
} families[REMAT_FAMILY_COUNT] = {
    [REMAT_FAMILY_mlp] = {.build = remat_model_mlp},
    [REMAT_FAMILY_gpt2] = {.heads = true, .context = true, .build = remat_model_gpt2},
};

static const struct preset {
    const char *name;
    enum remat_model_family family;
    int64_t layers, width, heads, vocab, context, seq;
} presets[] = {
#define PRESET(name, family, layers, width, heads, vocab, context, seq)                            \
    {name, REMAT_FAMILY_##family, layers, width, heads, vocab, context, seq},
#include "models.def"
#undef PRESET
};
#define PRESET_COUNT (sizeof presets / sizeof presets[0])

/* The products of sizes at these limits, in bytes, stay below 2^63. */
#define SIZE(member, most)                                                                         \
    {                                                                                              \
        "--" #member, offsetof(struct remat_model_settings, member), most                          \
    }
static const struct size {
    const char *option;
    size_t offset;
    int64_t most;
} sizes[] = {
    SIZE(layers, 1000),     SIZE(width, 131072), SIZE(heads, 4096),  SIZE(vocab, 1 << 24),
    SIZE(context, 1048576), SIZE(batch, 65536),  SIZE(seq, 1048576),
};

/* --- presets --- */

uint32_t remat_model_preset_count(void)
{
    return PRESET_COUNT;
}

const char *remat_model_preset_name(uint32_t preset)
{
    return presets[preset].name;
}

static remat_status fail_unknown(remat_context *ctx, const char *name)
{
    char known[512] = "";
    size_t used = 0;
    for (size_t k = 0; k < PRESET_COUNT; k++) {
        size_t length = strlen(presets[k].name);
        if (used + length + 3 > sizeof known)
            break;
        memcpy(known + used, k ? ", " : "", k ? 2 : 0);
        used += k ? 2 : 0;
        memcpy(known + used, presets[k].name, length + 1);
        used += length;
    }
    return remat_error(ctx, REMAT_ERROR_USAGE, "unknown model '%.60s' (accepted: %s)", name, known);
}

remat_status remat_model_preset(remat_context *ctx, const char *name,
                                struct remat_model_settings *out)
{
    for (size_t k = 0; k < PRESET_COUNT; k++) {
        const struct preset *p = &presets[k];
        if (strcmp(p->name, name) != 0)
            continue;
        *out = (struct remat_model_settings){
            .family = p->family,
            .name = p->name,
            .layers = p->layers,
            .width = p->width,
            .heads = p->heads,
            .vocab = p->vocab,
            .context = p->context,
            .batch = 1,
            .seq = p->seq,
            .optimizer = {true, 0.9, 0.999, 1e-8, 0.01},
        };
        return REMAT_OK;
    }
    return fail_unknown(ctx, name);
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

static remat_status check_sizes(remat_context *ctx, const struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const struct family *family = &families[s->family];
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int64_t value;
        memcpy(&value, (const char *)s + sizes[k].offset, sizeof value);
        bool applies = true;
        if (sizes[k].offset == offsetof(struct remat_model_settings, heads))
            applies = family->heads;
        else if (sizes[k].offset == offsetof(struct remat_model_settings, context))
            applies = family->context;
        REMAT_TRY(check_size(ctx, &sizes[k], value, applies, s->name));
    }
    if (family->heads && s->width % s->heads != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--heads %lld does not divide --width %lld (accepted: divisors of %lld)",
                   (long long)s->heads, (long long)s->width, (long long)s->width);
    if (family->context && s->seq > s->context)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--seq %lld is above --context %lld (accepted: 1 to %lld)", (long long)s->seq,
                   (long long)s->context, (long long)s->context);
    return REMAT_OK;
fail:
    return st;
}

static remat_status check_optimizer(remat_context *ctx, const struct remat_optimizer *o)
{
    const struct {
        const char *option;
        double value;
        bool good;
        const char *accepted;
    } rows[] = {
        {"--beta1", o->beta1, o->beta1 >= 0 && o->beta1 < 1, "0 up to, not including, 1"},
        {"--beta2", o->beta2, o->beta2 >= 0 && o->beta2 < 1, "0 up to, not including, 1"},
        {"--epsilon", o->epsilon, o->epsilon > 0 && o->epsilon <= 1, "more than 0 up to 1"},
        {"--weight-decay", o->weight_decay, o->weight_decay >= 0 && o->weight_decay <= 1, "0 to 1"},
    };
    for (size_t k = 0; o->adamw && k < sizeof rows / sizeof rows[0]; k++)
        if (!rows[k].good)
            return remat_error(ctx, REMAT_ERROR_USAGE, "%s %g is out of range (accepted: %s)",
                               rows[k].option, rows[k].value, rows[k].accepted);
    return REMAT_OK;
}

/* --- generation --- */

remat_status remat_model_generate(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_model_settings *settings,
                                  struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s = *settings;
    struct remat_model m = {.settings = &s, .layer = ""};
    if (s.seq == 0)
        s.seq = s.context;
    REMAT_TRY(check_sizes(ctx, &s));
    REMAT_TRY(check_optimizer(ctx, &s.optimizer));

    struct remat_graph *graph = remat_graph_create(ctx, arena, s.name);
    if (!graph)
        return REMAT_ERROR_MEMORY;
    graph->optimizer = s.optimizer;
    remat_builder_init(&m.b, ctx, arena, graph);
    families[s.family].build(&m);
    REMAT_TRY(m.b.status);
    REMAT_TRY(remat_graph_verify(ctx, graph));
    *out = graph;
    return REMAT_OK;
fail:
    return st;
}
