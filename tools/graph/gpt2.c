/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 with the parameter names and layouts of Hugging Face's checkpoints (its Conv1D weights are
 * [in, out]) and GPT-2's initial values: N(0, 0.02), and N(0, 0.02 / sqrt(2 layers)) for the two
 * projections of a layer that end in the residual stream. GPT-BigCode has one head of keys and
 * values, or the columns of the product in another order; its weights, and those without biases as
 * nanoGPT has them, are [out, in]. */
#include "model_builder.h"

#include <math.h>

#define STD 0.02

static double residual_std(const struct model_builder *m)
{
    return STD / sqrt(2.0 * (double)m->settings->layers);
}

static remat_value linear(struct model_builder *m, const char *name, const char *parameters,
                          remat_value x, int64_t columns, double std)
{
    const struct remat_model_settings *s = m->settings;
    return s->by_output ? remat_model_dense(m, name, parameters, x, columns, std, !s->no_bias)
                        : remat_model_linear(m, name, parameters, x, columns, std);
}

static remat_value embed(struct model_builder *m, remat_value tokens, remat_value wte)
{
    const struct remat_model_settings *s = m->settings;
    remat_value wpe = remat_model_parameter(m, "wpe.weight", s->context, s->width, 0, STD);
    remat_model_scope(m, "embed");
    remat_value token = remat_model_embedding(m, "embed.token", wte, tokens);
    remat_value position = remat_model_slice(m, "embed.position", wpe, 0, 0, s->seq);
    remat_value x = remat_model_add(m, "embed", token, position);
    return remat_model_dropout(m, "embed.dropout", x);
}

struct gpt2_heads {
    remat_value q, k, v;
};

/* The `heads` heads of qkv [B, T, C] from column `begin` on, as [B, T, heads, D]. */
static remat_value split_heads(struct model_builder *m, const char *name, const char *part_name,
                               remat_value qkv, int64_t begin, int64_t heads)
{
    const struct remat_model_settings *s = m->settings;
    int64_t size = s->width / s->heads, by_head[] = {s->batch, s->seq, heads, size};
    remat_value part = remat_model_slice(m, part_name, qkv, 2, begin, begin + heads * size);
    return remat_model_reshape(m, name, part, by_head, 4);
}

/* Of qkv [B, T, H 3 D]. */
static struct gpt2_heads split_each_head(struct model_builder *m, remat_value qkv)
{
    const struct remat_model_settings *s = m->settings;
    int64_t size = s->width / s->heads;
    remat_value all = remat_model_heads(m, "attn.heads", qkv, s->heads);
    return (struct gpt2_heads){remat_model_slice(m, "attn.q", all, 3, 0, size),
                               remat_model_slice(m, "attn.k", all, 3, size, 2 * size),
                               remat_model_slice(m, "attn.v", all, 3, 2 * size, 3 * size)};
}

static struct gpt2_heads split(struct model_builder *m, remat_value qkv)
{
    const struct remat_model_settings *s = m->settings;
    int64_t kv_width = s->width / s->heads * s->kv_heads;
    struct gpt2_heads h;
    if (s->by_head && s->kv_heads == s->heads)
        return split_each_head(m, qkv);
    h.q = split_heads(m, "attn.q", "attn.q.part", qkv, 0, s->heads);
    h.k = split_heads(m, "attn.k", "attn.k.part", qkv, s->width, s->kv_heads);
    h.v = split_heads(m, "attn.v", "attn.v.part", qkv, s->width + kv_width, s->kv_heads);
    return h;
}

static remat_value attention(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    int64_t joined[] = {s->batch, s->seq, s->width};
    int64_t columns = s->width / s->heads * (s->heads + 2 * s->kv_heads);
    remat_model_scope(m, "attn/qkv");
    remat_value qkv = linear(m, "attn.qkv", "attn.c_attn", x, columns, STD);

    remat_model_scope(m, "attn/core");
    struct gpt2_heads h = split(m, qkv);
    remat_value by_head = remat_model_attention(m, "attn.core", h.q, h.k, h.v, true);
    remat_value context = remat_model_reshape(m, "attn.context", by_head, joined, 3);

    remat_model_scope(m, "attn/proj");
    remat_value y = linear(m, "attn.proj", "attn.c_proj", context, s->width, residual_std(m));
    return remat_model_dropout(m, "attn.proj.dropout", y);
}

static remat_value mlp(struct model_builder *m, remat_value x)
{
    int64_t width = m->settings->width;
    remat_model_scope(m, "mlp/fc");
    x = linear(m, "mlp.fc", "mlp.c_fc", x, m->settings->hidden, STD);
    remat_model_scope(m, "mlp/act");
    x = remat_model_activate(m, "mlp.act", x);
    remat_model_scope(m, "mlp/proj");
    x = linear(m, "mlp.proj", "mlp.c_proj", x, width, residual_std(m));
    return remat_model_dropout(m, "mlp.proj.dropout", x);
}

static remat_value layer(struct model_builder *m, remat_value x, int64_t index)
{
    remat_model_layer(m, "h", "h", index);
    m->scale = m->settings->scores_by_layer ? 1 / (double)(index + 1) : 1;
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
