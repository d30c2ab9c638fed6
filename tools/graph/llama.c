/* SPDX-License-Identifier: Apache-2.0 */
/* Llama and its relatives with the parameter names and layouts of Hugging Face's checkpoints and
 * their initial values, N(0, 0.02): root-mean-square norms, rotary positions, grouped key heads,
 * gated MLP. Qwen 2 adds biases, Qwen 3 norms of queries and keys; Phi-3 fuses products. */
#include "model_builder.h"

#define STD 0.02

static remat_value dense(struct model_builder *m, const char *name, const char *parameters,
                         remat_value x, int64_t columns, bool bias)
{
    return remat_model_dense(m, name, parameters, x, columns, STD, bias);
}

static remat_value columns(struct model_builder *m, const char *name, remat_value x, int64_t begin,
                           int64_t count)
{
    return remat_model_slice(m, name, x, 2, begin, begin + count);
}

struct heads {
    remat_value q, k, v;
};

static struct heads project(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    int64_t width = s->heads * s->head_size, kv_width = s->kv_heads * s->head_size;
    bool bias = s->qkv_bias || s->attention_bias;
    struct heads h;
    if (s->fused) {
        remat_value qkv = dense(m, "attn.qkv", "self_attn.qkv_proj", x, width + 2 * kv_width, bias);
        h.q = columns(m, "attn.q_proj", qkv, 0, width);
        h.k = columns(m, "attn.k_proj", qkv, width, kv_width);
        h.v = columns(m, "attn.v_proj", qkv, width + kv_width, kv_width);
        return h;
    }
    h.q = dense(m, "attn.q_proj", "self_attn.q_proj", x, width, bias);
    h.k = dense(m, "attn.k_proj", "self_attn.k_proj", x, kv_width, bias);
    h.v = dense(m, "attn.v_proj", "self_attn.v_proj", x, kv_width, bias);
    return h;
}

/* The beginning of each head, or all of it. */
static remat_value turn(struct model_builder *m, const char *name, remat_value x, remat_value table)
{
    int64_t size = m->settings->head_size, turned = remat_model_rotary_size(m->settings);
    if (turned == size)
        return remat_model_rope(m, name, x, table);
    struct remat_arena *arena = m->b.arena;
    remat_value rest =
        remat_model_slice(m, REMAT_FORMAT(arena, "%s.rest", name), x, 3, turned, size);
    x = remat_model_slice(m, REMAT_FORMAT(arena, "%s.part", name), x, 3, 0, turned);
    x = remat_model_rope(m, REMAT_FORMAT(arena, "%s.turned", name), x, table);
    return remat_model_join(m, name, x, rest);
}

/* x by heads, with their norm if the model has one, rotated. */
static remat_value rotate(struct model_builder *m, const char *name, const char *norm,
                          remat_value x, int64_t heads, remat_value table)
{
    x = remat_model_heads(m, REMAT_FORMAT(m->b.arena, "%s.heads", name), x, heads);
    if (m->settings->qk_norm)
        x = remat_model_rms_norm(m, REMAT_FORMAT(m->b.arena, "%s.norm", name), norm, x);
    return turn(m, name, x, table);
}

static remat_value attention(struct model_builder *m, remat_value x, remat_value table)
{
    const struct remat_model_settings *s = m->settings;
    int64_t joined[] = {s->batch, s->seq, s->heads * s->head_size};
    remat_model_scope(m, "attn/qkv");
    struct heads h = project(m, x);

    remat_model_scope(m, "attn/rope");
    h.q = rotate(m, "attn.q", "self_attn.q_norm", h.q, s->heads, table);
    h.k = rotate(m, "attn.k", "self_attn.k_norm", h.k, s->kv_heads, table);
    h.v = remat_model_heads(m, "attn.v", h.v, s->kv_heads);

    remat_model_scope(m, "attn/core");
    remat_value by_head = remat_model_attention(m, "attn.core", h.q, h.k, h.v, true);
    remat_value context = remat_model_reshape(m, "attn.context", by_head, joined, 3);

    remat_model_scope(m, "attn/proj");
    return dense(m, "attn.proj", "self_attn.o_proj", context, s->width, s->attention_bias);
}

static remat_value mlp(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    remat_value gate, up;
    remat_model_scope(m, "mlp/fc");
    if (s->fused) {
        up = dense(m, "mlp.gate_up", "mlp.gate_up_proj", x, 2 * s->hidden, s->mlp_bias);
        gate = columns(m, "mlp.gate", up, 0, s->hidden);
        up = columns(m, "mlp.up", up, s->hidden, s->hidden);
    } else {
        gate = dense(m, "mlp.gate", "mlp.gate_proj", x, s->hidden, s->mlp_bias);
        up = dense(m, "mlp.up", "mlp.up_proj", x, s->hidden, s->mlp_bias);
    }
    remat_model_scope(m, "mlp/act");
    x = remat_model_gated(m, "mlp.act", gate, up);
    remat_model_scope(m, "mlp/proj");
    return dense(m, "mlp.proj", "mlp.down_proj", x, s->width, s->mlp_bias);
}

static remat_value layer(struct model_builder *m, remat_value x, remat_value table, int64_t index)
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
    remat_value embedding = remat_model_by_token(m, "model.embed_tokens.weight", s->width, STD);

    remat_model_scope(m, "embed");
    remat_value x = remat_model_embedding(m, "embed", embedding, m->tokens);
    remat_value table = remat_model_rope_table(m, "rope", s->seq, remat_model_rotary_size(s) / 2);
    for (int64_t i = 0; i < s->layers; i++)
        x = layer(m, x, table, i);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "norm_f");
    x = remat_model_rms_norm(m, "norm_f", "model.norm", x);
    remat_model_scope(m, "head");
    remat_value logits = s->tied ? remat_model_tied_head(m, "logits", x, embedding, REMAT_NO_VALUE)
                                 : remat_model_head(m, "logits", "lm_head", x, STD);
    remat_model_loss(m, logits, targets, false);
}
