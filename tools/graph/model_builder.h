/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of the families, so that a family reads like the model.
 *
 * Names: inside a layer with scope "layers.3" and prefix "model.layers.3" a value or parameter
 * "input_layernorm" is called "model.layers.3.input_layernorm", and the scope "norm_1" is
 * "layers.3/norm_1". Activations have the settings' dtype; so do parameters. */
#ifndef REMAT_MODEL_BUILDER_H
#define REMAT_MODEL_BUILDER_H

#include "builder.h"
#include "model_settings.h"
#include "ops.h"

struct model_builder {
    const struct remat_model_settings *settings;
    struct remat_builder b;
    const char *scope, *prefix; /* of the layer, "" outside layers */
    remat_value tokens;    /* i32 [batch, seq]: what causal attention reads; set by the family */
    remat_value rng;       /* the state of dropout's generator, REMAT_NO_VALUE before its use */
    remat_value positions; /* f32 [seq] for written-out causal masks, likewise */
    int64_t sites;         /* of dropout, so far */
    uint32_t adapters;     /* of linears, so far */
    double scale;          /* of attention's scores, beside 1 / sqrt(D) unless they are unscaled */
};

/* Enters layer `index` of a stack ("h", "encoder/layers"), whose names begin with `prefix`, a dot
 * and the index; leaves the layer if `stack` is NULL. */
void remat_model_layer(struct model_builder *m, const char *stack, const char *prefix,
                       int64_t index);
void remat_model_scope(struct model_builder *m, const char *scope); /* "" is the layer itself */

/* tokens and targets: i32 [batch, seq] */
remat_value remat_model_input(struct model_builder *m, const char *name, int64_t seq);
/* rank 1 if columns is 0; std 0 makes a constant. */
remat_value remat_model_parameter(struct model_builder *m, const char *name, int64_t rows,
                                  int64_t columns, double mean, double std);
/* The same with a row for each token id, padded as the settings say. */
remat_value remat_model_by_token(struct model_builder *m, const char *name, int64_t columns,
                                 double std);

remat_value remat_model_add(struct model_builder *m, const char *name, remat_value x,
                            remat_value y);
remat_value remat_model_scale(struct model_builder *m, const char *name, remat_value x,
                              double factor);
remat_value remat_model_embedding(struct model_builder *m, const char *name, remat_value table,
                                  remat_value ids);
/* Joined along their last axis. */
remat_value remat_model_join(struct model_builder *m, const char *name, remat_value x,
                             remat_value y);
remat_value remat_model_slice(struct model_builder *m, const char *name, remat_value x,
                              int64_t axis, int64_t begin, int64_t end);
remat_value remat_model_reshape(struct model_builder *m, const char *name, remat_value x,
                                const int64_t *dims, uint32_t rank);
/* x itself where it has that dtype. */
remat_value remat_model_cast(struct model_builder *m, const char *name, remat_value x,
                             remat_dtype dtype);
/* By the settings' probability; x itself where that is 0. */
remat_value remat_model_dropout(struct model_builder *m, const char *name, remat_value x);
/* The rotations of `length` positions of vectors of 2 pairs elements; and x [B, T, H, D] rotated.
 */
remat_value remat_model_rope_table(struct model_builder *m, const char *name, int64_t length,
                                   int64_t pairs);
remat_value remat_model_rope(struct model_builder *m, const char *name, remat_value x,
                             remat_value table);
/* x [B, T, C] as [B, T, heads, C / heads] */
remat_value remat_model_heads(struct model_builder *m, const char *name, remat_value x,
                              int64_t heads);
/* Scaled by 1 / sqrt(D) and m->scale, with dropout; q [B, Tq, H, D], k and v [B, Tk, Hkv, D]; [B,
 * Tq, H D]. One op or written out, as the settings say. */
remat_value remat_model_attention(struct model_builder *m, const char *name, remat_value q,
                                  remat_value k, remat_value v, bool causal);
/* With the parameters "PARAMETERS.weight" [width of x, columns] ~ N(0, std) and "PARAMETERS.bias",
 * and plus B (alpha / rank A x) where the settings give the linear an adapter: A [rank, width of x]
 * is "PARAMETERS.lora_A.weight", B [columns, rank], zeros, "PARAMETERS.lora_B.weight". */
remat_value remat_model_linear(struct model_builder *m, const char *name, const char *parameters,
                               remat_value x, int64_t columns, double std);
/* The same with weight [columns, width of x], and the bias only if wanted. */
remat_value remat_model_dense(struct model_builder *m, const char *name, const char *parameters,
                              remat_value x, int64_t columns, double std, bool bias);
/* With the parameters "PARAMETERS.weight" and, unless the settings say no_bias, "PARAMETERS.bias".
 */
remat_value remat_model_layer_norm(struct model_builder *m, const char *name,
                                   const char *parameters, remat_value x);
/* With the parameter "PARAMETERS.weight". */
remat_value remat_model_rms_norm(struct model_builder *m, const char *name, const char *parameters,
                                 remat_value x);
/* The first of the settings' names of linears that get an adapter that no linear of the whole model
 * has, of that length; NULL: none, or they are a glob. */
const char *remat_model_idle_target(const struct model_builder *m, int *length);
/* x times the transpose of `table` [V, C], plus a bias unless that is REMAT_NO_VALUE */
remat_value remat_model_tied_head(struct model_builder *m, const char *name, remat_value x,
                                  remat_value table, remat_value bias);
/* x times the transpose of "PARAMETERS.weight" [V, C] ~ N(0, std), which is not tied */
remat_value remat_model_head(struct model_builder *m, const char *name, const char *parameters,
                             remat_value x, double std);
/* Mean cross-entropy "loss" in scope "loss": the graph's output. Targets of -100 do not count if
 * `ignores`. */
void remat_model_loss(struct model_builder *m, remat_value logits, remat_value targets,
                      bool ignores);

/* --- families, each in a file of its name --- */
#define REMAT_MODEL(family) void remat_model_##family(struct model_builder *m)
REMAT_MODEL(mlp);
REMAT_MODEL(gpt2);
REMAT_MODEL(llama);
REMAT_MODEL(bert);
REMAT_MODEL(encdec);

/* The settings' activation of x; that of `gate` times x. */
remat_value remat_model_activate(struct model_builder *m, const char *name, remat_value x);
remat_value remat_model_gated(struct model_builder *m, const char *name, remat_value gate,
                              remat_value x);

#endif
