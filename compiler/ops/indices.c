/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements an op accepts of an operand that has indices: the rows of indices.def, and
 * "ignore_index". */
#include "ops.h"

#define FIRST 0
#define LAST  (shape->rank - 1)

struct remat_indices remat_op_indices(const struct remat_graph *graph,
                                      const struct remat_node_info *node, uint32_t k)
{
    struct remat_indices out = {0};
    const struct remat_shape *shape;
    uint32_t index = REMAT_NONE;
    int64_t bound = 0, ignored = remat_node_int(node, "ignore_index", 0);
    switch (node->op) {
#define INDEX(op, operand, value, axis)                                                            \
    case REMAT_OP_##op:                                                                            \
        shape = &graph->values[node->value.i].shape;                                               \
        bound = shape->dims[axis];                                                                 \
        index = operand;                                                                           \
        break;
#include "indices.def"
#undef INDEX
    }
    if (k != index)
        return out;
    out.bound = bound < REMAT_INDEX_BOUND_MAX ? (uint32_t)bound : REMAT_INDEX_BOUND_MAX;
    if (ignored == (int32_t)ignored)
        out.ignored = (int32_t)ignored;
    return out;
}
