/* What the families are written with. As in struct remat_builder, the first failure sticks in
 * b.status and later calls do nothing, so that a family reads like the model.
 *
 * Names: inside a layer "h.3" a value or parameter "ln_1" is called "h.3.ln_1", and the scope
 * "ln_1" is "h.3/ln_1". */
#ifndef REMAT_MODEL_BUILDER_H
#define REMAT_MODEL_BUILDER_H

#include "models.h"
#include "ops.h"

struct remat_model {
    const struct remat_model_settings *settings;
    struct remat_builder b;
    const char *layer; /* "h.3", "" outside layers */
};

/* Leaves the layer if `stack` is NULL. */
void remat_model_layer(struct remat_model *m, const char *stack, int64_t index);
void remat_model_scope(struct remat_model *m, const char *scope); /* "" is the layer itself */

/* tokens and targets: i32 [batch, seq] */
remat_value remat_model_input(struct remat_model *m, const char *name);
/* rank 1 if columns is 0; std 0 makes a constant. */
remat_value remat_model_parameter(struct remat_model *m, const char *name, int64_t rows,
                                  int64_t columns, double mean, double std);

remat_value remat_model_add(struct remat_model *m, const char *name, remat_value x, remat_value y);
remat_value remat_model_gelu(struct remat_model *m, const char *name, remat_value x);
remat_value remat_model_embedding(struct remat_model *m, const char *name, remat_value table,
                                  remat_value ids);
remat_value remat_model_slice(struct remat_model *m, const char *name, remat_value x, int64_t axis,
                              int64_t begin, int64_t end);
remat_value remat_model_reshape(struct remat_model *m, const char *name, remat_value x,
                                const int64_t *dims, uint32_t rank);
/* Causal, scaled by 1 / sqrt(D); q, k, v [B, T, H, D]. */
remat_value remat_model_attention(struct remat_model *m, const char *name, remat_value q,
                                  remat_value k, remat_value v);
/* With the parameters "PARAMETERS.weight" [width of x, columns] ~ N(0, std) and "PARAMETERS.bias".
 */
remat_value remat_model_linear(struct remat_model *m, const char *name, const char *parameters,
                               remat_value x, int64_t columns, double std);
/* With the parameters "NAME.weight" and "NAME.bias". */
remat_value remat_model_layer_norm(struct remat_model *m, const char *name, remat_value x);
/* x times the transpose of `table` [V, C] */
remat_value remat_model_tied_head(struct remat_model *m, const char *name, remat_value x,
                                  remat_value table);
/* Mean cross-entropy "loss" in scope "loss": the graph's output. */
void remat_model_loss(struct remat_model *m, remat_value logits, remat_value targets);

/* --- families --- */
void remat_model_mlp(struct remat_model *m);
void remat_model_gpt2(struct remat_model *m);

#endif
