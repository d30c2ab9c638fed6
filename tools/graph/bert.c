/* SPDX-License-Identifier: Apache-2.0 */
/* BERT with its head for masked tokens, with the parameter names and layouts of Hugging Face's
 * checkpoints and its initial values, N(0, 0.02): norms after the residual sums, learned positions,
 * full attention. All tokens are of type 0. Targets of -100 are tokens that were not masked. */
#include "model_builder.h"

#define STD 0.02

static remat_value dense(struct model_builder *m, const char *name, const char *parameters,
                         remat_value x, int64_t columns)
{
    return remat_model_dense(m, name, parameters, x, columns, STD, true);
}

static remat_value embed(struct model_builder *m, remat_value words)
{
    const struct remat_model_settings *s = m->settings;
    remat_value positions = remat_model_parameter(m, "bert.embeddings.position_embeddings.weight",
                                                  s->context, s->width, 0, STD);
    remat_value types = remat_model_parameter(m, "bert.embeddings.token_type_embeddings.weight",
                                              s->token_types, s->width, 0, STD);
    remat_model_scope(m, "embed");
    remat_value x = remat_model_embedding(m, "embed.token", words, m->tokens);
    remat_value type = remat_model_slice(m, "embed.type", types, 0, 0, 1);
    x = remat_model_add(m, "embed.typed", x, type);
    remat_value position = remat_model_slice(m, "embed.position", positions, 0, 0, s->seq);
    x = remat_model_add(m, "embed.sum", x, position);
    x = remat_model_layer_norm(m, "embed", "bert.embeddings.LayerNorm", x);
    return remat_model_dropout(m, "embed.dropout", x);
}

static remat_value attention(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    int64_t joined[] = {s->batch, s->seq, s->width};
    remat_model_scope(m, "attn/qkv");
    remat_value q = dense(m, "attn.query", "attention.self.query", x, s->width);
    remat_value k = dense(m, "attn.key", "attention.self.key", x, s->width);
    remat_value v = dense(m, "attn.value", "attention.self.value", x, s->width);

    remat_model_scope(m, "attn/core");
    q = remat_model_heads(m, "attn.q", q, s->heads);
    k = remat_model_heads(m, "attn.k", k, s->heads);
    v = remat_model_heads(m, "attn.v", v, s->heads);
    remat_value by_head = remat_model_attention(m, "attn.core", q, k, v, false);
    remat_value context = remat_model_reshape(m, "attn.context", by_head, joined, 3);

    remat_model_scope(m, "attn/proj");
    x = dense(m, "attn.proj", "attention.output.dense", context, s->width);
    return remat_model_dropout(m, "attn.proj.dropout", x);
}

static remat_value mlp(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    remat_model_scope(m, "mlp/fc");
    x = dense(m, "mlp.fc", "intermediate.dense", x, s->hidden);
    remat_model_scope(m, "mlp/act");
    x = remat_model_activate(m, "mlp.act", x);
    remat_model_scope(m, "mlp/proj");
    x = dense(m, "mlp.proj", "output.dense", x, s->width);
    return remat_model_dropout(m, "mlp.proj.dropout", x);
}

static remat_value layer(struct model_builder *m, remat_value x, int64_t index)
{
    remat_model_layer(m, "layers", "bert.encoder.layer", index);
    remat_value y = attention(m, x);
    remat_model_scope(m, "");
    x = remat_model_add(m, "attn.residual", x, y);
    remat_model_scope(m, "ln_1");
    x = remat_model_layer_norm(m, "ln_1", "attention.output.LayerNorm", x);

    y = mlp(m, x);
    remat_model_scope(m, "");
    x = remat_model_add(m, "mlp.residual", x, y);
    remat_model_scope(m, "ln_2");
    return remat_model_layer_norm(m, "ln_2", "output.LayerNorm", x);
}

REMAT_MODEL(bert)
{
    const struct remat_model_settings *s = m->settings;
    m->tokens = remat_model_input(m, "tokens", s->seq);
    remat_value targets = remat_model_input(m, "targets", s->seq);
    remat_value words =
        remat_model_by_token(m, "bert.embeddings.word_embeddings.weight", s->width, STD);
    remat_value x = embed(m, words);
    for (int64_t i = 0; i < s->layers; i++)
        x = layer(m, x, i);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "head");
    x = dense(m, "head.dense", "cls.predictions.transform.dense", x, s->width);
    x = remat_model_activate(m, "head.act", x);
    x = remat_model_layer_norm(m, "head.norm", "cls.predictions.transform.LayerNorm", x);
    remat_value bias = remat_model_by_token(m, "cls.predictions.bias", 0, 0);
    remat_model_loss(m, remat_model_tied_head(m, "logits", x, words, bias), targets, true);
}
