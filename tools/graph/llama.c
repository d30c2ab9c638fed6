/* SPDX-License-Identifier: Apache-2.0 */
/* Llama with the parameter names and layouts of Hugging Face's checkpoints and its initial values,
 * N(0, 0.02): root-mean-square norms, rotary positions, grouped key heads, gated MLP, no biases. */
#include "model_builder.h"

#define STD 0.02

static remat_value dense(struct remat_model *m, const char *name, const char *parameters,
                         remat_value x, int64_t columns)
{
    return remat_model_dense(m, name, parameters, x, columns, STD, false);
}

static remat_value attention(struct remat_model *m, remat_value x, remat_value table)
{
    const struct remat_model_settings *s = m->settings;
    int64_t joined[] = {s->batch, s->seq, s->width}, kv_width = s->width / s->heads * s->kv_heads;
    remat_model_scope(m, "attn/qkv");
    remat_value q = dense(m, "attn.q_proj", "self_attn.q_proj", x, s->width);
    remat_value k = dense(m, "attn.k_proj", "self_attn.k_proj", x, kv_width);
    remat_value v = dense(m, "attn.v_proj", "self_attn.v_proj", x, kv_width);

    remat_model_scope(m, "attn/rope");
    q = remat_model_rope(m, "attn.q", remat_model_heads(m, "attn.q.heads", q, s->heads), table);
    k = remat_model_rope(m, "attn.k", remat_model_heads(m, "attn.k.heads", k, s->kv_heads), table);
    v = remat_model_heads(m, "attn.v", v, s->kv_heads);

    remat_model_scope(m, "attn/core");
    remat_value by_head = remat_model_attention(m, "attn.core", q, k, v, true);
    remat_value context = remat_model_reshape(m, "attn.context", by_head, joined, 3);

    remat_model_scope(m, "attn/proj");
    return dense(m, "attn.proj", "self_attn.o_proj", context, s->width);
}

static remat_value mlp(struct remat_model *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    remat_model_scope(m, "mlp/fc");
    remat_value gate = dense(m, "mlp.gate", "mlp.gate_proj", x, s->hidden);
    remat_value up = dense(m, "mlp.up", "mlp.up_proj", x, s->hidden);
    remat_model_scope(m, "mlp/act");
    x = remat_model_swiglu(m, "mlp.act", gate, up);
    remat_model_scope(m, "mlp/proj");
    return dense(m, "mlp.proj", "mlp.down_proj", x, s->width);
}

static remat_value layer(struct remat_model *m, remat_value x, remat_value table, int64_t index)
{
    remat_model_layer(m, "layers", "model.layers", index);
    remat_model_scope(m, "norm_1");
    remat_value y = remat_model_rms_norm(m, "norm_1", "input_layernorm", x);
    y = remat_model_dropout(m, "attn.dropout", attention(m, y, table));
    remat_model_scope(m, "");
    x = remat_model_add(m, "attn.residual", x, y);

    remat_model_scope(m, "norm_2");
    y = remat_model_rms_norm(m, "norm_2", "post_attention_layernorm", x);
    y = remat_model_dropout(m, "mlp.dropout", mlp(m, y));
    remat_model_scope(m, "");
    return remat_model_add(m, "mlp.residual", x, y);
}

REMAT_MODEL(llama)
{
    const struct remat_model_settings *s = m->settings;
    m->tokens = remat_model_input(m, "tokens", s->seq);
    remat_value targets = remat_model_input(m, "targets", s->seq);
    remat_value embedding =
        remat_model_parameter(m, "model.embed_tokens.weight", s->vocab, s->width, 0, STD);

    remat_model_scope(m, "embed");
    remat_value x = remat_model_embedding(m, "embed", embedding, m->tokens);
    remat_value table = remat_model_rope_table(m, "rope", s->seq, s->width / s->heads / 2);
    for (int64_t i = 0; i < s->layers; i++)
        x = layer(m, x, table, i);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "norm_f");
    x = remat_model_rms_norm(m, "norm_f", "model.norm", x);
    remat_model_scope(m, "head");
    remat_value logits = s->tied ? remat_model_tied_head(m, "logits", x, embedding, REMAT_NO_VALUE)
                                 : dense(m, "logits", "lm_head", x, s->vocab);
    remat_model_loss(m, logits, targets, false);
}
