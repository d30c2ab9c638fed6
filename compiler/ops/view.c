/* SPDX-License-Identifier: Apache-2.0 */
/* Strides of views (reshape, slice, transpose).
 *
 * A view owns no bytes: its elements lie in its storage root at an offset with strides. A reshape
 * of strided elements is a view only if the axes that it merges are contiguous in memory; otherwise
 * the graph needs an explicit copy. */
#include "view.h"

static void dense_strides(const struct remat_shape *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

/* Splits and merges axes, those of length 1 aside; merged ones must follow each other in memory (as
 * NumPy's reshape without a copy). Both shapes have as many elements. */
static bool reshape_strides(const struct remat_shape *from, const int64_t *strides,
                            const struct remat_shape *to, int64_t *out)
{
    int64_t length[REMAT_RANK_MAX], stride[REMAT_RANK_MAX];
    uint32_t rank = 0, begin = 0;
    for (uint32_t d = 0; d < from->rank; d++)
        if (from->dims[d] != 1) {
            length[rank] = from->dims[d];
            stride[rank++] = strides[d];
        }
    dense_strides(to, out);
    for (uint32_t o = 0, o_end; o < rank; o = o_end) {
        while (to->dims[begin] == 1)
            begin++;
        uint32_t end = begin + 1;
        int64_t wanted = to->dims[begin], given = length[o];
        for (o_end = o + 1; wanted != given;)
            if (wanted < given)
                wanted *= to->dims[end++];
            else
                given *= length[o_end++];
        for (uint32_t d = o; d + 1 < o_end; d++)
            if (stride[d] != length[d + 1] * stride[d + 1])
                return false;
        int64_t run = stride[o_end - 1];
        for (uint32_t d = end; d-- > begin; run *= to->dims[d])
            out[d] = run;
        begin = end;
    }
    return true;
}

/* The view of a view node's output, in place of that of its input; false where there is none. */
static bool apply_view(const struct remat_graph *graph, const struct remat_node_info *node,
                       struct remat_view *view)
{
    const struct remat_shape *to = &graph->values[node->outputs[0].i].shape;
    struct remat_view from = *view;
    bool found = true;
    if (node->op == REMAT_OP_slice) {
        int64_t begin = remat_node_int(node, "begin", 0);
        view->offset_elements += (uint64_t)(begin * from.strides[remat_node_int(node, "axis", 0)]);
    } else if (node->op == REMAT_OP_transpose) {
        const struct remat_attribute *permutation = remat_node_attribute(node, "permutation");
        for (uint32_t d = 0; d < permutation->count; d++)
            view->strides[d] = from.strides[permutation->ints[d]];
    } else if (node->op == REMAT_OP_foreign_view) {
        const struct remat_attribute *strides = remat_node_attribute(node, "strides");
        view->offset_elements = (uint64_t)remat_node_int(node, "offset", 0);
        for (uint32_t d = 0; d < strides->count; d++)
            view->strides[d] = strides->ints[d];
    } else {
        found = reshape_strides(&graph->values[node->inputs[0].i].shape, from.strides, to,
                                view->strides);
    }
    view->rank = to->rank;
    memcpy(view->shape, to->dims, sizeof view->shape);
    return found;
}

/* The node that value is a view by; NULL where it owns bytes. */
static const struct remat_node_info *view_of(const struct remat_graph *graph, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(graph, value);
    return node && remat_op_has(node->op, REMAT_FACT_VIEW) ? node : NULL;
}

struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value)
{
    assert(value.i < graph->value_count);
    static const struct remat_view none = {.root = {REMAT_NONE}};
    const struct remat_node_info *chain[REMAT_VIEW_CHAIN_MAX], *by;
    uint32_t length = 0;
    for (; (by = view_of(graph, value)); value = by->inputs[0]) {
        if (length == REMAT_VIEW_CHAIN_MAX)
            return none;
        chain[length++] = by;
    }
    struct remat_shape rows = graph->values[value.i].shape;
    struct remat_view view = {.root = value, .rank = rows.rank};
    memcpy(view.shape, rows.dims, sizeof view.shape);
    if (graph->values[value.i].pitch)
        rows.dims[rows.rank - 1] = graph->values[value.i].pitch;
    dense_strides(&rows, view.strides);
    while (length-- > 0)
        if (!apply_view(graph, chain[length], &view))
            return none;
    return view;
}

bool remat_can_view(const struct remat_graph *graph, remat_value x)
{
    const struct remat_node_info *view;
    uint32_t length = 0;
    for (; (view = view_of(graph, x)); x = view->inputs[0])
        length++;
    return length < REMAT_VIEW_CHAIN_MAX;
}

bool remat_can_reshape(const struct remat_graph *graph, remat_value x, const struct remat_shape *to)
{
    int64_t strides[REMAT_RANK_MAX];
    if (!remat_can_view(graph, x))
        return false;
    struct remat_view view = remat_view_of(graph, x);
    return !remat_is_none(view.root.i) &&
           reshape_strides(&graph->values[x.i].shape, view.strides, to, strides);
}
