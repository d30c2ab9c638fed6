/* Views as strides: each view op maps shape, strides and offset of its input to those of its
 * output. */
#include "view.h"

#include "ops.h"

static void dense_strides(uint32_t rank, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t axis = rank; axis-- > 0;) {
        strides[axis] = stride;
        stride *= shape[axis];
    }
}

/* Splits and merges axes; merged ones must follow each other in memory (as NumPy's reshape without
 * a copy). */
static bool view_reshape(struct remat_view *view, const struct remat_shape *to)
{
    struct remat_view old = {0};
    for (uint32_t axis = 0; axis < view->rank; axis++)
        if (view->shape[axis] != 1) {
            old.shape[old.rank] = view->shape[axis];
            old.strides[old.rank++] = view->strides[axis];
        }
    view->rank = to->rank;
    memcpy(view->shape, to->dims, sizeof view->shape);
    dense_strides(to->rank, to->dims, view->strides);
    uint32_t n = 0;
    for (uint32_t o = 0; o < old.rank;) {
        while (n < to->rank && to->dims[n] == 1)
            n++;
        uint32_t n_end = n + 1, o_end = o + 1;
        int64_t new_size = to->dims[n], old_size = old.shape[o];
        while (new_size != old_size)
            if (new_size < old_size)
                new_size *= to->dims[n_end++];
            else
                old_size *= old.shape[o_end++];
        for (uint32_t axis = o; axis + 1 < o_end; axis++)
            if (old.strides[axis] != old.shape[axis + 1] * old.strides[axis + 1])
                return false;
        int64_t stride = old.strides[o_end - 1];
        for (uint32_t axis = n_end; axis-- > n;) {
            view->strides[axis] = stride;
            stride *= to->dims[axis];
        }
        n = n_end;
        o = o_end;
    }
    return true;
}

static void view_slice(struct remat_view *view, const struct remat_node_info *node,
                       const struct remat_shape *to)
{
    int64_t axis = remat_node_int(node, "axis", 0);
    if (axis < 0)
        axis += view->rank;
    int64_t begin = remat_node_int(node, "begin", 0);
    view->offset_elements += (uint64_t)(begin * view->strides[axis]);
    memcpy(view->shape, to->dims, sizeof view->shape);
}

static void view_transpose(struct remat_view *view, const struct remat_node_info *node)
{
    const struct remat_attribute *permutation = remat_node_attribute(node, "permutation");
    struct remat_view old = *view;
    for (uint32_t axis = 0; axis < view->rank; axis++) {
        view->shape[axis] = old.shape[permutation->ints[axis]];
        view->strides[axis] = old.strides[permutation->ints[axis]];
    }
}

static remat_status apply(remat_context *ctx, const struct remat_graph *graph, remat_value value,
                          struct remat_view *view)
{
    const struct remat_value_info *info = &graph->values[value.i];
    const struct remat_node_info *node = &graph->nodes[info->node];
    switch (node->op) {
    case REMAT_OP_reshape:
        if (!view_reshape(view, &info->shape))
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "node \"%s\" (reshape): its input is strided such that the shape "
                               "needs a copy",
                               info->name);
        return REMAT_OK;
    case REMAT_OP_slice:
        view_slice(view, node, &info->shape);
        return REMAT_OK;
    case REMAT_OP_transpose:
        view_transpose(view, node);
        return REMAT_OK;
    default:
        return remat_error(ctx, REMAT_ERROR_INTERNAL, "node \"%s\": view op without strides",
                           info->name);
    }
}

remat_status remat_view_of(remat_context *ctx, const struct remat_graph *graph, remat_value value,
                           struct remat_view *out)
{
    const struct remat_value_info *info = &graph->values[value.i];
    if (!remat_is_none(info->node) && remat_op_has(graph->nodes[info->node].op, REMAT_FACT_VIEW)) {
        remat_status st = remat_view_of(ctx, graph, graph->nodes[info->node].inputs[0], out);
        return st == REMAT_OK ? apply(ctx, graph, value, out) : st;
    }
    *out = (struct remat_view){.root = value, .rank = info->shape.rank};
    memcpy(out->shape, info->shape.dims, sizeof out->shape);
    dense_strides(out->rank, out->shape, out->strides);
    return REMAT_OK;
}

bool remat_view_broadcast(const struct remat_view *view, const struct remat_shape *space,
                          struct remat_view *out)
{
    if (view->rank > space->rank)
        return false;
    struct remat_view result = {
        .root = view->root, .rank = space->rank, .offset_elements = view->offset_elements};
    uint32_t missing = space->rank - view->rank;
    for (uint32_t axis = 0; axis < space->rank; axis++) {
        int64_t length = axis < missing ? 1 : view->shape[axis - missing];
        result.shape[axis] = space->dims[axis];
        if (length == space->dims[axis])
            result.strides[axis] = axis < missing ? 0 : view->strides[axis - missing];
        else if (length != 1)
            return false;
    }
    *out = result;
    return true;
}

bool remat_view_is_dense(const struct remat_view *view)
{
    int64_t stride = 1;
    for (uint32_t axis = view->rank; axis-- > 0;) {
        if (view->shape[axis] != 1 && view->strides[axis] != stride)
            return false;
        stride *= view->shape[axis];
    }
    return view->offset_elements == 0;
}
