/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the reference: a node being evaluated, and what the definitions of ops share. */
#ifndef REFERENCE_CALL_H
#define REFERENCE_CALL_H

#include "reference.h"

#define REFERENCE_INPUTS_MAX 16

struct call {
    const struct remat_graph *graph;
    const struct remat_node_info *node;
    const struct remat_shape *in_shape[REFERENCE_INPUTS_MAX], *out_shape[4];
    double *in[REFERENCE_INPUTS_MAX]; /* written by no op but where it sets a flag */
    double *out[4];
};

int64_t count_of(const struct remat_shape *shape);
int64_t last_of(const struct remat_shape *shape);
void unflatten(const struct remat_shape *shape, int64_t flat, int64_t *index);
int64_t flatten(const struct remat_shape *shape, const int64_t *index);
/* The element of `shape` that element `flat` of the broadcast shape `to` reads. */
int64_t broadcast_index(const struct remat_shape *shape, const struct remat_shape *to,
                        int64_t flat);

int64_t attribute(const struct call *c, const char *key); /* 0 without */
double number(const struct call *c, const char *key, double otherwise);
/* Input k is a flag, if there is one: 1 where input x is not finite. */
void set_flag(const struct call *c, uint32_t k, uint32_t x);
bool has_attribute(const struct call *c, const char *key);
/* Any function of site and index serves. */
double random_number(const struct call *c, int64_t index);

double apply(uint16_t op, double a, double b, double c); /* NaN: not a pointwise op */

typedef void evaluate_function(const struct call *c);
evaluate_function evaluate_pointwise, evaluate_constant, evaluate_column, evaluate_assign,
    evaluate_row_sum, evaluate_row_max, evaluate_column_sum, evaluate_reshape, evaluate_slice,
    evaluate_transpose, evaluate_pad, evaluate_concat, evaluate_matmul, evaluate_matmul_accumulate,
    evaluate_linear, evaluate_attention, evaluate_attention_backward, evaluate_embedding,
    evaluate_embedding_backward, evaluate_batch_slice, evaluate_advance, evaluate_layer_norm,
    evaluate_gelu, evaluate_relu, evaluate_rms_norm, evaluate_silu, evaluate_swiglu,
    evaluate_softmax, evaluate_mask_causal, evaluate_scale, evaluate_rope, evaluate_rope_table,
    evaluate_random, evaluate_dropout, evaluate_cast, evaluate_cross_entropy,
    evaluate_linear_cross_entropy, evaluate_mean, evaluate_softplus, evaluate_conv2d,
    evaluate_expm1, evaluate_adamw_coefficients, evaluate_adamw, evaluate_sgd;

#endif
