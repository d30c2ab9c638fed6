/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention, whole: dropout(softmax(scale q k^T, masked)) v with grouped key
 * heads. Its second output, the log of each row's sum of exponentials, is all that the gradient
 * needs to recompute the probabilities. */
#include "family.h"

/* The input with the queries: the gradient's is 1. */
static uint32_t first_of(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_attention_backward;
}

OP_SHAPE(attention)
{
    const struct remat_shape *q = remat_input_shape(graph, node, first_of(node));
    const struct remat_shape *k = remat_input_shape(graph, node, first_of(node) + 1);
    if (q->dims[2] % k->dims[2] != 0)
        return INVALID(ctx, "%lld query heads are no multiple of %lld key heads",
                       (long long)q->dims[2], (long long)k->dims[2]);
    if (remat_node_int(node, "causal", 0) && q->dims[1] > k->dims[1])
        return INVALID(
            ctx, "causal attention of %lld queries to %lld keys: the first queries see no key",
            (long long)q->dims[1], (long long)k->dims[1]);
    REMAT_CHECK(remat_check_window(ctx, node, k->dims[1]));
    if (remat_is_none(remat_node_operand(node, "rng")) && remat_node_number(node, "p") != 0)
        return INVALID(ctx, "dropout needs the state of the random generator");
    return REMAT_OK;
}

/* Pairs of a query and a key that it sees, all heads; query i sees Tk - Tq + 1 + i keys. */
static uint64_t visible_pairs(const struct remat_graph *graph, const struct remat_node_info *node)
{
    const struct remat_shape *q = remat_input_shape(graph, node, first_of(node));
    uint64_t tq = (uint64_t)q->dims[1];
    uint64_t tk = (uint64_t)remat_input_shape(graph, node, first_of(node) + 1)->dims[1];
    bool causal = remat_node_int(node, "causal", 0);
    uint64_t twice = remat_mul_saturated(tq, causal ? 2 * (tk - tq) + tq + 1 : 2 * tk);
    uint64_t heads = (uint64_t)q->dims[0] * (uint64_t)q->dims[2];
    return remat_mul_saturated(twice / 2, heads);
}

static uint64_t head_depth(const struct remat_graph *graph, const struct remat_node_info *node)
{
    return (uint64_t)remat_input_shape(graph, node, 0)->dims[3];
}

/* Two products of depth D and the softmax; backward five: the scores again, dp, dv, dk, dq. */
OP_FLOPS(attention)
{
    uint64_t depth = head_depth(graph, node);
    bool backward = node->op == REMAT_OP_attention_backward;
    return remat_mul_saturated(visible_pairs(graph, node),
                               backward ? 10 * depth + 22 : 4 * depth + 20);
}

uint64_t remat_op_product_flops(const struct remat_graph *graph, const struct remat_node_info *node)
{
    if (node->op == REMAT_OP_matmul || node->op == REMAT_OP_matmul_accumulate)
        return remat_op_info(node->op)->flops(graph, node);
    if (node->op != REMAT_OP_attention && node->op != REMAT_OP_attention_backward)
        return 0;
    bool backward = node->op == REMAT_OP_attention_backward;
    return remat_mul_saturated(visible_pairs(graph, node),
                               (backward ? 8 : 4) * head_depth(graph, node));
}

OP_DERIVE(attention)
{
    const remat_value inputs[] = {gradient,
                                  node->inputs[0],
                                  node->inputs[1],
                                  node->inputs[2],
                                  node->outputs[0],
                                  node->outputs[1],
                                  OPTIONAL(node->inputs, "rng"),
                                  OPTIONAL(node->inputs, "query_segments"),
                                  OPTIONAL(node->inputs, "key_segments")};
    remat_build(b, REMAT_OP_attention_backward, inputs, sizeof inputs / sizeof *inputs,
                node->attributes, node->attribute_count, in_gradients);
}
