/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign ops. A node's results are of the types that the graph states; what is checked is that
 * their class can make them. */
#include "family.h"

static void take_stated(const struct remat_graph *graph, const struct remat_node_info *node,
                        struct remat_value_info *outputs)
{
    for (uint32_t k = 0; k < node->output_count; k++) {
        const struct remat_value_info *stated = &graph->values[node->outputs[k].i];
        outputs[k] = remat_typed(stated->dtype, stated->shape);
    }
}

OP_FLOPS(foreign)
{
    return (uint64_t)remat_node_number(node, "flops");
}

/* Operands broadcast to the result. */
OP_SHAPE(foreign_pointwise)
{
    take_stated(graph, node, outputs);
    const struct remat_shape *to = &outputs[0].shape;
    for (uint32_t k = 0; k < node->input_count; k++) {
        const struct remat_shape *x = remat_input_shape(graph, node, k);
        bool fits = x->rank <= to->rank;
        for (uint32_t d = 0; fits && d < x->rank; d++)
            fits = x->dims[d] == 1 || x->dims[d] == to->dims[d + to->rank - x->rank];
        if (!fits)
            return INVALID(ctx, "input %u has shape %s, which does not broadcast to %s", k,
                           SHAPE_TEXT(x), SHAPE_TEXT(to));
    }
    return REMAT_OK;
}

static remat_status check_reduced(remat_context *ctx, const struct remat_graph *graph,
                                  const struct remat_node_info *node,
                                  const struct remat_shape *expected,
                                  struct remat_value_info *outputs)
{
    take_stated(graph, node, outputs);
    outputs[0].shape = *expected;
    return expected->rank ? REMAT_OK : INVALID(ctx, "input 0 has no axis to reduce");
}

OP_SHAPE(foreign_row_reduce)
{
    struct remat_shape shape = *remat_input_shape(graph, node, 0);
    if (shape.rank)
        shape.dims[shape.rank - 1] = 1;
    return check_reduced(ctx, graph, node, &shape, outputs);
}

OP_SHAPE(foreign_reduce)
{
    const struct remat_attribute *axes = remat_node_attribute(node, "axes");
    struct remat_shape shape = *remat_input_shape(graph, node, 0);
    for (uint32_t k = 0; k < axes->count; k++) {
        if (axes->ints[k] < 0 || axes->ints[k] >= shape.rank)
            return INVALID(ctx, "axis %lld of a value of rank %u", (long long)axes->ints[k],
                           shape.rank);
        shape.dims[axes->ints[k]] = 1;
    }
    return check_reduced(ctx, graph, node, &shape, outputs);
}

/* The last element lies within the storage root. */
OP_SHAPE(foreign_view)
{
    take_stated(graph, node, outputs);
    const struct remat_shape *shape = &outputs[0].shape;
    const struct remat_attribute *strides = remat_node_attribute(node, "strides");
    const struct remat_value_info *root =
        &graph->values[remat_storage_root(graph, node->inputs[0]).i];
    int64_t last = remat_node_int(node, "offset", 0), end = remat_shape_elements(&root->shape);
    if (remat_dtype_bytes(outputs[0].dtype) != remat_dtype_bytes(root->dtype))
        return INVALID(ctx, "elements of %u bytes in storage with elements of %u",
                       remat_dtype_bytes(outputs[0].dtype), remat_dtype_bytes(root->dtype));
    if (strides->count != shape->rank)
        return INVALID(ctx, "%u strides of shape %s", strides->count, SHAPE_TEXT(shape));
    bool inside = true;
    for (uint32_t d = 0; d < shape->rank && inside; d++) {
        int64_t span;
        inside = strides->ints[d] >= 0 &&
                 !__builtin_mul_overflow(shape->dims[d] - 1, strides->ints[d], &span) &&
                 !__builtin_add_overflow(last, span, &last);
    }
    if (!inside || last >= end)
        return INVALID(ctx, "it reaches beyond its storage of %lld elements", (long long)end);
    return REMAT_OK;
}

OP_SHAPE(foreign_opaque)
{
    take_stated(graph, node, outputs);
    return REMAT_OK;
}
