/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention, whole: dropout(softmax(scale q k^T, masked)) v with grouped key
 * heads. Its second output, the log of each row's sum of exponentials, is all that the gradient
 * needs to recompute the probabilities. */
#include "family.h"

static remat_status check_operands(remat_context *ctx, const struct remat_graph *graph,
                                   const struct remat_node_info *node, uint32_t first)
{
    for (uint32_t k = first; k < first + 3; k++)
        REMAT_CHECK(remat_check_like_first(ctx, graph, node, k, 4, 4));
    const struct remat_shape *q = remat_input_shape(graph, node, first);
    const struct remat_shape *k = remat_input_shape(graph, node, first + 1);
    struct remat_shape expected = {4, {q->dims[0], k->dims[1], k->dims[2], q->dims[3]}};
    REMAT_CHECK(remat_check_shape(ctx, graph, node, first + 1, &expected));
    REMAT_CHECK(remat_check_shape(ctx, graph, node, first + 2, &expected));
    if (q->dims[2] % k->dims[2] != 0)
        return INVALID(ctx, "%lld query heads are no multiple of %lld key heads",
                       (long long)q->dims[2], (long long)k->dims[2]);
    if (remat_node_int(node, "causal", 0) && q->dims[1] > k->dims[1])
        return INVALID(
            ctx, "causal attention of %lld queries to %lld keys: the first queries see no key",
            (long long)q->dims[1], (long long)k->dims[1]);
    uint32_t rng = first == 0 ? 3 : 6;
    if (node->input_count > rng)
        return remat_check_dropout(ctx, graph, node, rng);
    if (remat_node_float(node, "p", 0) != 0)
        return INVALID(ctx, "dropout needs the state of the random generator");
    return REMAT_OK;
}

static struct remat_shape sums_shape(const struct remat_shape *q)
{
    return (struct remat_shape){3, {q->dims[0], q->dims[2], q->dims[1]}};
}

OP_SHAPE(attention)
{
    REMAT_CHECK(check_operands(ctx, graph, node, 0));
    const struct remat_shape *q = remat_input_shape(graph, node, 0);
    outputs[0] = remat_typed(remat_input(graph, node, 0)->dtype, *q);
    outputs[1] = remat_typed(REMAT_F32, sums_shape(q));
    return REMAT_OK;
}

OP_SHAPE(attention_backward)
{
    REMAT_CHECK(remat_check_float(ctx, graph, node, 0, 4, 4));
    REMAT_CHECK(check_operands(ctx, graph, node, 1));
    const struct remat_shape *q = remat_input_shape(graph, node, 1);
    struct remat_shape sums = sums_shape(q);
    REMAT_CHECK(remat_check_shape(ctx, graph, node, 0, q));
    REMAT_CHECK(remat_check_shape(ctx, graph, node, 4, q));
    REMAT_CHECK(remat_check_shape(ctx, graph, node, 5, &sums));
    REMAT_CHECK(remat_check_like_first(ctx, graph, node, 4, 4, 4));
    REMAT_CHECK(remat_check_input(ctx, graph, node, 5, REMAT_F32, 3, 3));
    for (uint32_t k = 0; k < 3; k++) {
        outputs[k] =
            remat_typed(remat_input(graph, node, 0)->dtype, *remat_input_shape(graph, node, 1 + k));
    }
    return REMAT_OK;
}

/* Pairs of a query and a key that it sees, all heads; query i sees Tk - Tq + 1 + i keys. */
static uint64_t visible_pairs(const struct remat_graph *graph, const struct remat_node_info *node,
                              uint32_t first)
{
    const struct remat_shape *q = remat_input_shape(graph, node, first);
    uint64_t tq = (uint64_t)q->dims[1];
    uint64_t tk = (uint64_t)remat_input_shape(graph, node, first + 1)->dims[1];
    bool causal = remat_node_int(node, "causal", 0);
    uint64_t twice = remat_mul_saturated(tq, causal ? 2 * (tk - tq) + tq + 1 : 2 * tk);
    uint64_t heads = (uint64_t)q->dims[0] * (uint64_t)q->dims[2];
    return remat_mul_saturated(twice / 2, heads);
}

/* Two products of depth D and the softmax. */
OP_FLOPS(attention)
{
    uint64_t depth = (uint64_t)remat_input_shape(graph, node, 0)->dims[3];
    return remat_mul_saturated(visible_pairs(graph, node, 0), 4 * depth + 20);
}

/* Five products: the scores again, dp, dv, dk, dq. */
OP_FLOPS(attention_backward)
{
    uint64_t depth = (uint64_t)remat_input_shape(graph, node, 1)->dims[3];
    return remat_mul_saturated(visible_pairs(graph, node, 1), 10 * depth + 22);
}

OP_DERIVE(attention)
{
    bool drops = node->input_count > 3;
    const remat_value inputs[] = {gradient,
                                  node->inputs[0],
                                  node->inputs[1],
                                  node->inputs[2],
                                  node->outputs[0],
                                  node->outputs[1],
                                  drops ? node->inputs[3] : REMAT_NO_VALUE};
    remat_build(b, REMAT_OP_attention_backward, inputs, 6 + drops, node->attributes,
                node->attribute_count, in_gradients);
}
