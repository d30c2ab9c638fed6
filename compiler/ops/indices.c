/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements an op accepts of an operand that has indices: the rows below, less what is
 * padding, and "ignore_index". */
#include "ops.h"

#include <assert.h>

#define FIRST 0
#define LAST  (into->shape.rank - 1)

struct remat_indices remat_op_indices(const struct remat_graph *graph,
                                      const struct remat_node_info *node, uint32_t k)
{
    assert(k < node->input_count);
    struct remat_indices out = {0};
    const struct remat_value_info *into;
    uint32_t index = REMAT_NONE;
    int64_t bound = 0, ignored = remat_node_int(node, "ignore_index", 0);
    switch (node->op) {
        /* Op, operand, value of the node and its axis that the elements are indices into. */
#define INDEX(op, operand, value, axis)                                                            \
    case REMAT_OP_##op:                                                                            \
        into = &graph->values[node->value.i];                                                      \
        bound = into->unpadded_rows ? into->unpadded_rows : into->shape.dims[axis];                \
        index = operand;                                                                           \
        break;
        INDEX(embedding, 1, inputs[0], FIRST)
        INDEX(embedding_backward, 1, outputs[0], FIRST)
        INDEX(embedding_accumulate, 2, inputs[0], FIRST)
        INDEX(cross_entropy, 1, inputs[0], LAST)
        INDEX(linear_cross_entropy, 2, outputs[3], FIRST)
        INDEX(rope, 2, inputs[1], FIRST)
#undef INDEX
    }
    if (k != index)
        return out;
    bound = remat_node_int(node, "classes", bound);
    out.bound = bound < REMAT_INDEX_BOUND_MAX ? (uint32_t)bound : REMAT_INDEX_BOUND_MAX;
    if (ignored == (int32_t)ignored)
        out.ignored = (int32_t)ignored;
    return out;
}
