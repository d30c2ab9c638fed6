/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <assert.h>

#include "ops.h"

struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value)
{
    const struct remat_shape *shape = &graph->values[value.i].shape;
    struct remat_layout layout;
    bool found = remat_value_layout(graph, value, &layout);
    assert(found);
    (void)found;
    struct remat_view view = {.root = remat_storage_root(graph, value),
                              .rank = shape->rank,
                              .offset_elements = (uint64_t)layout.offset};
    memcpy(view.shape, shape->dims, sizeof view.shape);
    memcpy(view.strides, layout.strides, sizeof view.strides);
    return view;
}

struct remat_view remat_view_broadcast(struct remat_view view, const struct remat_shape *space)
{
    struct remat_view out = {
        .root = view.root, .rank = space->rank, .offset_elements = view.offset_elements};
    assert(view.rank <= space->rank);
    uint32_t missing = space->rank - view.rank;
    for (uint32_t axis = 0; axis < space->rank; axis++) {
        int64_t length = axis < missing ? 1 : view.shape[axis - missing];
        assert(length == 1 || length == space->dims[axis]);
        out.shape[axis] = space->dims[axis];
        if (axis >= missing && length == space->dims[axis])
            out.strides[axis] = view.strides[axis - missing];
    }
    return out;
}

bool remat_view_is_whole(const struct remat_view *view, const struct remat_value_info *root)
{
    int64_t stride = 1, row = root->pitch ? root->shape.dims[root->shape.rank - 1] : 0;
    for (uint32_t axis = view->rank; axis-- > 0;) {
        if (view->shape[axis] != 1 && view->strides[axis] != stride)
            return false;
        stride *= view->shape[axis];
        stride = stride == row ? root->pitch : stride;
    }
    return view->offset_elements == 0;
}
