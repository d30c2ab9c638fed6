/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions as Hugging Face's Llama has them: element i of a head's first half and element i
 * of its second are a pair. With the table's rotations W[t, to, from, i] both halves of the result
 * are y[to] = x[0] W[to, 0] + x[1] W[to, 1] over one space [B, T, H, 2, D / 2], which one kernel
 * computes from two broadcast views of x. The inverse rotation is the transpose. */
#include "family.h"

OP_SHAPE(rope_table)
{
    int64_t length = remat_node_int(node, "length", 0), pairs = remat_node_int(node, "pairs", 0);
    if (length < 1 || pairs < 1)
        return INVALID(ctx, "a table of %lld positions and %lld pairs", (long long)length,
                       (long long)pairs);
    double low = remat_node_number(node, "low"), high = remat_node_number(node, "high");
    if (high <= low)
        return INVALID(ctx, "attribute \"high\" is %g, expected more than \"low\", %g", high, low);
    outputs[0] = remat_typed(REMAT_F32, (struct remat_shape){4, {length, 2, 2, pairs}});
    return REMAT_OK;
}

OP_SHAPE(rope)
{
    const struct remat_shape *x = remat_input_shape(graph, node, 0);
    if (x->dims[3] % 2 != 0)
        return INVALID(ctx, "heads of odd length %lld", (long long)x->dims[3]);
    struct remat_shape table = {4, {x->dims[1], 2, 2, x->dims[3] / 2}};
    if (!remat_is_none(remat_node_operand(node, "positions")))
        table.dims[0] = remat_input_shape(graph, node, 1)->dims[0];
    return remat_check_shape(ctx, graph, node, 1, &table);
}

/* The rotations of each token: those of the table [T, 2, 2, D / 2], or [B, T, 2, 2, D / 2]. */
static remat_value rotations(struct remat_builder *b, remat_value table, remat_value positions)
{
    if (remat_is_none(positions.i))
        return table;
    struct remat_shape shape = b->graph->values[table.i].shape;
    struct remat_shape tokens = b->graph->values[positions.i].shape;
    int64_t rows[] = {shape.dims[0], 4 * shape.dims[3]};
    int64_t dims[] = {tokens.dims[0], tokens.dims[1], 2, 2, shape.dims[3]};
    table = remat_build_reshape(b, table, rows, 2);
    return remat_build_reshape(b, remat_build2(b, REMAT_OP_embedding, table, positions), dims, 5);
}

/* The half `from` of x times its factor in both halves of the result: [B, T, H, 2, D / 2]. */
static remat_value term(struct remat_builder *b, remat_value x, remat_value table, int64_t from,
                        bool inverse)
{
    struct remat_shape table_shape = b->graph->values[table.i].shape;
    struct remat_shape shape = b->graph->values[x.i].shape;
    int64_t pairs = shape.dims[3] / 2;
    remat_value half = remat_build_slice(b, x, 3, from * pairs, (from + 1) * pairs);
    int64_t dims[] = {shape.dims[0], shape.dims[1], shape.dims[2], 1, pairs};
    half = remat_build_reshape(b, half, dims, 5);
    uint32_t to = table_shape.rank - 3;
    remat_value factor = remat_build_slice(b, table, inverse ? to : to + 1, from, from + 1);
    table_shape.dims[to] = 1;
    factor = remat_build_reshape(b, factor, table_shape.dims, table_shape.rank);
    return OP2(mul, F32(half), factor);
}

OP_EXPAND(rope)
{
    bool inverse = remat_node_int(node, "inverse", 0);
    struct remat_shape shape = b->graph->values[inputs[0].i].shape;
    remat_value table = rotations(b, inputs[1], OPTIONAL(inputs, "positions"));
    remat_value first = term(b, inputs[0], table, 0, inverse);
    remat_value sum = OP2(add, first, term(b, inputs[0], table, 1, inverse));
    outputs[0] = remat_build_reshape(b, LIKE(sum, inputs[0]), shape.dims, shape.rank);
}

OP_DERIVE(rope)
{
    const struct remat_attribute inverse =
        remat_attribute_int("inverse", !remat_node_int(node, "inverse", 0));
    const remat_value inputs[] = {gradient, node->inputs[1], OPTIONAL(node->inputs, "positions")};
    in_gradients[0] = remat_build(b, REMAT_OP_rope, inputs, 3, &inverse, 1, NULL);
}
