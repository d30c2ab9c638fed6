/* SPDX-License-Identifier: Apache-2.0 */
/* A float64 reference of every op, written from the definitions: which function evaluates an op,
 * and what the definitions share. */
#include "reference_call.h"

#include <math.h>

/* --- indices --- */

int64_t count_of(const struct remat_shape *shape)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        n *= shape->dims[d];
    return n;
}

int64_t last_of(const struct remat_shape *shape)
{
    return shape->dims[shape->rank - 1];
}

void unflatten(const struct remat_shape *shape, int64_t flat, int64_t *index)
{
    for (uint32_t d = shape->rank; d-- > 0;) {
        index[d] = flat % shape->dims[d];
        flat /= shape->dims[d];
    }
}

int64_t flatten(const struct remat_shape *shape, const int64_t *index)
{
    int64_t flat = 0;
    for (uint32_t d = 0; d < shape->rank; d++)
        flat = flat * shape->dims[d] + index[d];
    return flat;
}

int64_t broadcast_index(const struct remat_shape *shape, const struct remat_shape *to, int64_t flat)
{
    int64_t index[REMAT_RANK_MAX], own[REMAT_RANK_MAX];
    unflatten(to, flat, index);
    for (uint32_t d = 0; d < shape->rank; d++)
        own[d] = shape->dims[d] == 1 ? 0 : index[to->rank - shape->rank + d];
    return flatten(shape, own);
}

int64_t attribute(const struct call *c, const char *key)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return c->node->attributes[a].i;
    return 0;
}

double number(const struct call *c, const char *key, double otherwise)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return c->node->attributes[a].f;
    return otherwise;
}

bool has_attribute(const struct call *c, const char *key)
{
    for (uint32_t a = 0; a < c->node->attribute_count; a++)
        if (strcmp(c->node->attributes[a].key, key) == 0)
            return true;
    return false;
}

void set_flag(const struct call *c, uint32_t k, uint32_t x)
{
    if (c->node->input_count > k)
        for (int64_t i = 0; i < count_of(c->in_shape[x]); i++)
            if (!isfinite(c->in[x][i]))
                c->in[k][0] = 1;
}

double random_number(const struct call *c, int64_t index)
{
    const int64_t key[] = {attribute(c, "site"), index};
    return (double)(remat_hash(key, sizeof key, 5) >> 11) / 9007199254740992.0;
}

/* --- dispatch --- */

static evaluate_function *const functions[REMAT_OP_COUNT] = {
    [REMAT_OP_constant] = evaluate_constant,
    [REMAT_OP_column] = evaluate_column,
    [REMAT_OP_assign] = evaluate_assign,
    [REMAT_OP_row_sum] = evaluate_row_sum,
    [REMAT_OP_row_max] = evaluate_row_max,
    [REMAT_OP_column_sum] = evaluate_column_sum,
    [REMAT_OP_reshape] = evaluate_reshape,
    [REMAT_OP_slice] = evaluate_slice,
    [REMAT_OP_transpose] = evaluate_transpose,
    [REMAT_OP_pad] = evaluate_pad,
    [REMAT_OP_concat] = evaluate_concat,
    [REMAT_OP_matmul] = evaluate_matmul,
    [REMAT_OP_matmul_accumulate] = evaluate_matmul_accumulate,
    [REMAT_OP_linear] = evaluate_linear,
    [REMAT_OP_attention] = evaluate_attention,
    [REMAT_OP_attention_backward] = evaluate_attention_backward,
    [REMAT_OP_embedding] = evaluate_embedding,
    [REMAT_OP_embedding_backward] = evaluate_embedding_backward,
    [REMAT_OP_embedding_accumulate] = evaluate_embedding_backward,
    [REMAT_OP_batch_slice] = evaluate_batch_slice,
    [REMAT_OP_advance] = evaluate_advance,
    [REMAT_OP_layer_norm] = evaluate_layer_norm,
    [REMAT_OP_gelu] = evaluate_gelu,
    [REMAT_OP_relu] = evaluate_relu,
    [REMAT_OP_rms_norm] = evaluate_rms_norm,
    [REMAT_OP_silu] = evaluate_silu,
    [REMAT_OP_swiglu] = evaluate_swiglu,
    [REMAT_OP_softmax] = evaluate_softmax,
    [REMAT_OP_mask_causal] = evaluate_mask_causal,
    [REMAT_OP_scale] = evaluate_scale,
    [REMAT_OP_rope] = evaluate_rope,
    [REMAT_OP_rope_table] = evaluate_rope_table,
    [REMAT_OP_random] = evaluate_random,
    [REMAT_OP_dropout] = evaluate_dropout,
    [REMAT_OP_cast] = evaluate_cast,
    [REMAT_OP_cross_entropy] = evaluate_cross_entropy,
    [REMAT_OP_mean] = evaluate_mean,
    [REMAT_OP_softplus] = evaluate_softplus,
    [REMAT_OP_conv2d] = evaluate_conv2d,
    [REMAT_OP_expm1] = evaluate_expm1,
    [REMAT_OP_linear_cross_entropy] = evaluate_linear_cross_entropy,
    [REMAT_OP_adamw_coefficients] = evaluate_adamw_coefficients,
    [REMAT_OP_adamw] = evaluate_adamw,
    [REMAT_OP_sgd] = evaluate_sgd,
};

static bool evaluate_node(struct remat_arena *arena, const struct remat_graph *graph, uint32_t n,
                          double **values)
{
    struct call c = {.graph = graph, .node = &graph->nodes[n]};
    for (uint32_t k = 0; k < c.node->input_count; k++) {
        c.in[k] = values[c.node->inputs[k].i];
        c.in_shape[k] = &graph->values[c.node->inputs[k].i].shape;
    }
    for (uint32_t k = 0; k < c.node->output_count; k++) {
        c.out_shape[k] = &graph->values[c.node->outputs[k].i].shape;
        c.out[k] = remat_arena_array(arena, (size_t)count_of(c.out_shape[k]), sizeof(double));
        if (!c.out[k])
            return false;
        values[c.node->outputs[k].i] = c.out[k];
    }
    evaluate_function *evaluate = functions[c.node->op];
    if (!evaluate && c.node->input_count > 0 && c.node->output_count == 1 &&
        !isnan(apply(c.node->op, 1, 1, 1)))
        evaluate = evaluate_pointwise;
    if (evaluate)
        evaluate(&c);
    return evaluate != NULL;
}

bool reference_evaluate(struct remat_arena *arena, const struct remat_graph *graph, double **values)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (!evaluate_node(arena, graph, n, values))
            return false;
    return true;
}
