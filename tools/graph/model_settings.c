/* SPDX-License-Identifier: Apache-2.0 */
#include "model_settings.h"

#include "activation.h"
#include "range.h"

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

static const struct family_facts {
    uint32_t sizes;
    double epsilon;
    const char *activation;
} families[REMAT_FAMILY_COUNT] = {
    [REMAT_FAMILY_mlp] = {0, 1e-5, "gelu_new"},
    [REMAT_FAMILY_gpt2] = {COMMON_SIZES | KV_HEADS | LEARNED, 1e-5, "gelu_new"},
    [REMAT_FAMILY_llama] = {COMMON_SIZES | KV_HEADS | HEAD_SIZE, 1e-5, "silu"},
    [REMAT_FAMILY_bert] = {COMMON_SIZES | LEARNED, 1e-12, "gelu"},
    [REMAT_FAMILY_encdec] = {COMMON_SIZES | SOURCE, 1e-5, "relu"},
};

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

int64_t remat_model_rotary_size(const struct remat_model_settings *s)
{
    return s->rotary_part > 0 ? (int64_t)((double)s->head_size * s->rotary_part) : s->head_size;
}

void remat_model_complete(struct remat_model_settings *s)
{
    const struct family_facts *family = &families[s->family];
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
    int64_t turned = remat_model_rotary_size(s);
    if ((has & HEAD_SIZE) && s->head_size > 0 && (turned == 0 || turned % 2 != 0))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--head-size %lld: partial_rotary_factor %g turns %lld of its elements "
                           "(accepted: an even number of them, from 2 on)",
                           (long long)s->head_size, s->rotary_part, (long long)turned);
    return REMAT_OK;
}

static remat_status check_sizes(remat_context *ctx, const struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    const struct family_facts *family = &families[s->family];
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

remat_status remat_model_check(remat_context *ctx, const struct remat_model_settings *s)
{
    remat_status st = check_sizes(ctx, s);
    return st ? st : check_optimizer(ctx, &s->optimizer);
}
