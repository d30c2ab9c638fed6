/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 with the parameter names and layouts of Hugging Face's checkpoints (its Conv1D weights are
 * [in, out]) and GPT-2's initial values: N(0, 0.02), and N(0, 0.02 / sqrt(2 layers)) for the two
 * projections of a layer that end in the residual stream. */
#include "activation.h"
#include "model_builder.h"

#include <math.h>

#define STD 0.02

static double residual_std(const struct remat_model *m)
{
    return STD / sqrt(2.0 * (double)m->settings->layers);
}

static remat_value embed(struct remat_model *m, remat_value tokens, remat_value wte)
{
    const struct remat_model_settings *s = m->settings;
    remat_value wpe = remat_model_parameter(m, "wpe.weight", s->context, s->width, 0, STD);
    remat_model_scope(m, "embed");
    remat_value token = remat_model_embedding(m, "embed.token", wte, tokens);
    remat_value position = remat_model_slice(m, "embed.position", wpe, 0, 0, s->seq);
    remat_value x = remat_model_add(m, "embed", token, position);
    return remat_model_dropout(m, "embed.dropout", x);
}

/* The part of qkv [B, T, 3 C] that starts at column `begin`, as [B, T, H, D]. */
static remat_value split_heads(struct remat_model *m, const char *name, const char *part_name,
                               remat_value qkv, int64_t begin)
{
    const struct remat_model_settings *s = m->settings;
    int64_t by_head[] = {s->batch, s->seq, s->heads, s->width / s->heads};
    remat_value part = remat_model_slice(m, part_name, qkv, 2, begin, begin + s->width);
    return remat_model_reshape(m, name, part, by_head, 4);
}

static remat_value attention(struct remat_model *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    int64_t joined[] = {s->batch, s->seq, s->width};
    remat_model_scope(m, "attn/qkv");
    remat_value qkv = remat_model_linear(m, "attn.qkv", "attn.c_attn", x, 3 * s->width, STD);

    remat_model_scope(m, "attn/core");
    remat_value q = split_heads(m, "attn.q", "attn.q.part", qkv, 0);
    remat_value k = split_heads(m, "attn.k", "attn.k.part", qkv, s->width);
    remat_value v = split_heads(m, "attn.v", "attn.v.part", qkv, 2 * s->width);
    remat_value by_head = remat_model_attention(m, "attn.core", q, k, v, true);
    remat_value context = remat_model_reshape(m, "attn.context", by_head, joined, 3);

    remat_model_scope(m, "attn/proj");
    remat_value y =
        remat_model_linear(m, "attn.proj", "attn.c_proj", context, s->width, residual_std(m));
    return remat_model_dropout(m, "attn.proj.dropout", y);
}

static remat_value mlp(struct remat_model *m, remat_value x)
{
    int64_t width = m->settings->width;
    remat_model_scope(m, "mlp/fc");
    x = remat_model_linear(m, "mlp.fc", "mlp.c_fc", x, m->settings->hidden, STD);
    remat_model_scope(m, "mlp/act");
    x = remat_model_activate(m, "mlp.act", x);
    remat_model_scope(m, "mlp/proj");
    x = remat_model_linear(m, "mlp.proj", "mlp.c_proj", x, width, residual_std(m));
    return remat_model_dropout(m, "mlp.proj.dropout", x);
}

static remat_value layer(struct remat_model *m, remat_value x, int64_t index)
{
    remat_model_layer(m, "h", "h", index);
    remat_model_scope(m, "ln_1");
    remat_value y = attention(m, remat_model_layer_norm(m, "ln_1", "ln_1", x));
    remat_model_scope(m, "");
    x = remat_model_add(m, "attn.residual", x, y);

    remat_model_scope(m, "ln_2");
    y = mlp(m, remat_model_layer_norm(m, "ln_2", "ln_2", x));
    remat_model_scope(m, "");
    return remat_model_add(m, "mlp.residual", x, y);
}

REMAT_MODEL(gpt2)
{
    const struct remat_model_settings *s = m->settings;
    remat_value tokens = m->tokens = remat_model_input(m, "tokens", s->seq);
    remat_value targets = remat_model_input(m, "targets", s->seq);
    remat_value wte = remat_model_by_token(m, "wte.weight", s->width, STD);

    remat_value x = embed(m, tokens, wte);
    for (int64_t i = 0; i < s->layers; i++)
        x = layer(m, x, i);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "ln_f");
    x = remat_model_layer_norm(m, "ln_f", "ln_f", x);
    remat_model_scope(m, "head");
    remat_model_loss(m, remat_model_tied_head(m, "logits", x, wte, REMAT_NO_VALUE), targets, false);
}
