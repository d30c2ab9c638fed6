/* SPDX-License-Identifier: Apache-2.0 */
/* A small MLP over single tokens: embedding, layers of linear and gelu with a residual, a head. */
#include "model_builder.h"

#define STD 0.02

static remat_value layer(struct model_builder *m, remat_value x, int64_t index)
{
    remat_model_layer(m, "h", "h", index);
    remat_model_scope(m, "fc");
    remat_value y = remat_model_linear(m, "fc", "fc", x, m->settings->width, STD);
    remat_model_scope(m, "act");
    y = remat_model_activate(m, "act", y);
    remat_model_scope(m, "");
    return remat_model_add(m, "residual", x, y);
}

REMAT_MODEL(mlp)
{
    const struct remat_model_settings *s = m->settings;
    remat_value tokens = remat_model_input(m, "tokens", s->seq);
    remat_value targets = remat_model_input(m, "targets", s->seq);
    remat_value wte = remat_model_parameter(m, "wte.weight", s->vocab, s->width, 0, STD);

    remat_model_scope(m, "embed");
    remat_value x = remat_model_embedding(m, "embed", wte, tokens);
    for (int64_t i = 0; i < s->layers; i++)
        x = layer(m, x, i);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "head");
    remat_model_loss(m, remat_model_linear(m, "logits", "head", x, s->vocab, STD), targets, false);
}
