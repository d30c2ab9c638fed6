/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of attributes that op families share. */
#include "family.h"

remat_status remat_check_axis(remat_context *ctx, const struct remat_node_info *node, uint32_t rank)
{
    int64_t axis = remat_node_int(node, "axis", -1);
    if (axis >= 0 && axis < rank)
        return REMAT_OK;
    return INVALID(ctx, "axis %lld of a value of rank %u", (long long)axis, rank);
}

remat_status remat_check_window(remat_context *ctx, const struct remat_node_info *node,
                                int64_t keys)
{
    int64_t window = remat_node_int(node, "window", 0);
    if (window == 0 || keys <= window)
        return REMAT_OK;
    return INVALID(ctx, "a window of %lld keys slides over %lld (accepted: up to %lld keys)",
                   (long long)window, (long long)keys, (long long)window);
}

remat_status remat_check_columns(remat_context *ctx, int64_t columns)
{
    if (columns <= REMAT_WHOLES_MAX)
        return REMAT_OK;
    return INVALID(ctx, "%lld columns: f32 counts exactly up to %d", (long long)columns,
                   REMAT_WHOLES_MAX);
}

remat_status remat_shape_of_attribute(remat_context *ctx, const struct remat_node_info *node,
                                      struct remat_shape *out)
{
    const struct remat_attribute *dims = remat_node_attribute(node, "shape");
    int64_t elements = 1;
    if (dims->count > REMAT_RANK_MAX)
        return INVALID(ctx, "%u axes, at most %d are supported", dims->count, REMAT_RANK_MAX);
    *out = (struct remat_shape){dims->count, {0}};
    for (uint32_t d = 0; d < dims->count; d++) {
        out->dims[d] = dims->ints[d];
        if (out->dims[d] <= 0)
            return INVALID(ctx, "axis %u has length %lld", d, (long long)out->dims[d]);
        if (__builtin_mul_overflow(elements, out->dims[d], &elements))
            return INVALID(ctx, "the shape is too large");
    }
    return REMAT_OK;
}
