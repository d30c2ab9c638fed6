/* SPDX-License-Identifier: Apache-2.0 */
/* The original encoder-decoder (Vaswani et al., 2017) with the parameter names and layouts of
 * Hugging Face's Marian: norms after the residual sums, sines and cosines as positions, one
 * embedding for source, target and head. The encoder reads "source" [batch, source_seq], the
 * decoder "tokens" [batch, seq]; every decoder layer reads the encoder's output. */
#include "model_builder.h"

#include <math.h>

#define STD 0.02

struct sequence { /* what a stack works on */
    const char *name, *stack, *prefix;
    remat_value tokens;
    int64_t length;
};

static remat_value dense(struct model_builder *m, const char *name, const char *parameters,
                         remat_value x, int64_t columns)
{
    return remat_model_dense(m, name, parameters, x, columns, STD, true);
}

/* "self_attn.q_proj" for module "self_attn". */
static const char *in_module(struct model_builder *m, const char *module, const char *name)
{
    return REMAT_FORMAT(m->b.arena, "%s%s", module, name);
}

static remat_value embed(struct model_builder *m, const struct sequence *sequence,
                         remat_value shared)
{
    const struct remat_model_settings *s = m->settings;
    int64_t dims[] = {sequence->length, s->width};
    m->prefix = sequence->name;
    remat_model_scope(m, sequence->name);
    remat_value x = remat_model_embedding(m, "embed.token", shared, sequence->tokens);
    if (s->scaled_embedding)
        x = remat_model_scale(m, "embed.scaled", x, sqrt((double)s->width));
    remat_value table = remat_model_rope_table(m, "embed.table", sequence->length, s->width / 2);
    remat_value position = remat_model_slice(m, "embed.sines", table, 1, 1, 2);
    position = remat_model_reshape(m, "embed.position", position, dims, 2);
    x = remat_model_add(m, "embed", x,
                        remat_model_cast(m, "embed.position.cast", position, s->dtype));
    return remat_model_dropout(m, "embed.dropout", x);
}

/* Of queries x [B, Tq, C] to keys and values from y [B, Tk, C]; `scope` ends in attn. */
static remat_value attention(struct model_builder *m, const char *scope, const char *module,
                             remat_value x, remat_value y, bool causal)
{
    const struct remat_model_settings *s = m->settings;
    remat_model_scope(m, in_module(m, scope, "/qkv"));
    remat_value q =
        dense(m, in_module(m, module, ".q_proj.out"), in_module(m, module, ".q_proj"), x, s->width);
    remat_value k =
        dense(m, in_module(m, module, ".k_proj.out"), in_module(m, module, ".k_proj"), y, s->width);
    remat_value v =
        dense(m, in_module(m, module, ".v_proj.out"), in_module(m, module, ".v_proj"), y, s->width);

    remat_model_scope(m, in_module(m, scope, "/core"));
    q = remat_model_heads(m, in_module(m, module, ".q"), q, s->heads);
    k = remat_model_heads(m, in_module(m, module, ".k"), k, s->heads);
    v = remat_model_heads(m, in_module(m, module, ".v"), v, s->heads);
    remat_value by_head = remat_model_attention(m, in_module(m, module, ".core"), q, k, v, causal);
    int64_t joined[] = {s->batch, m->b.graph->values[x.i].shape.dims[1], s->width};
    remat_value context =
        remat_model_reshape(m, in_module(m, module, ".context"), by_head, joined, 3);

    remat_model_scope(m, in_module(m, scope, "/proj"));
    x = dense(m, in_module(m, module, ".proj"), in_module(m, module, ".out_proj"), context,
              s->width);
    return remat_model_dropout(m, in_module(m, module, ".dropout"), x);
}

static remat_value mlp(struct model_builder *m, remat_value x)
{
    const struct remat_model_settings *s = m->settings;
    remat_model_scope(m, "mlp/fc");
    x = dense(m, "mlp.fc", "fc1", x, s->hidden);
    remat_model_scope(m, "mlp/act");
    x = remat_model_activate(m, "mlp.act", x);
    remat_model_scope(m, "mlp/proj");
    x = dense(m, "mlp.proj", "fc2", x, s->width);
    return remat_model_dropout(m, "mlp.dropout", x);
}

/* The norm of the sum of x and y, with the parameters of `module`. */
static remat_value sum_norm(struct model_builder *m, const char *name, const char *module,
                            remat_value x, remat_value y)
{
    remat_model_scope(m, "");
    x = remat_model_add(m, in_module(m, name, ".residual"), x, y);
    remat_model_scope(m, name);
    return remat_model_layer_norm(m, name, module, x);
}

static remat_value stack(struct model_builder *m, const struct sequence *sequence,
                         remat_value shared, remat_value encoded)
{
    bool decodes = !remat_is_none(encoded.i);
    remat_value x = embed(m, sequence, shared);
    for (int64_t i = 0; i < m->settings->layers; i++) {
        remat_model_layer(m, sequence->stack, sequence->prefix, i);
        remat_value y = attention(m, "attn", "self_attn", x, x, decodes);
        x = sum_norm(m, "ln_1", "self_attn_layer_norm", x, y);
        if (decodes) {
            y = attention(m, "cross/attn", "encoder_attn", x, encoded, false);
            x = sum_norm(m, "ln_2", "encoder_attn_layer_norm", x, y);
        }
        x = sum_norm(m, "ln_3", "final_layer_norm", x, mlp(m, x));
    }
    remat_model_layer(m, NULL, NULL, 0);
    return x;
}

REMAT_MODEL(encdec)
{
    const struct remat_model_settings *s = m->settings;
    struct sequence source = {"encoder", "encoder/layers", "model.encoder.layers",
                              remat_model_input(m, "source", s->source_seq), s->source_seq};
    m->tokens = remat_model_input(m, "tokens", s->seq);
    struct sequence target = {"decoder", "decoder/layers", "model.decoder.layers", m->tokens,
                              s->seq};
    remat_value targets = remat_model_input(m, "targets", s->seq);
    remat_value shared = remat_model_by_token(m, "model.shared.weight", s->width, STD);
    remat_value encoded = stack(m, &source, shared, REMAT_NO_VALUE);
    remat_value x = stack(m, &target, shared, encoded);
    remat_model_scope(m, "head");
    remat_model_loss(m, remat_model_tied_head(m, "logits", x, shared, REMAT_NO_VALUE), targets,
                     false);
}
