/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of operands and attributes that op families share. */
#include "family.h"

struct remat_shape_text remat_shape_text(const struct remat_shape *shape)
{
    struct remat_shape_text out = {"["};
    size_t at = 1;
    for (uint32_t d = 0; d < shape->rank && d < REMAT_RANK_MAX; d++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, "%s%lld", d ? ", " : "",
                               (long long)shape->dims[d]);
    snprintf(out.text + at, sizeof out.text - at, "]");
    return out;
}

remat_status remat_check_input(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k, remat_dtype dtype,
                               uint32_t rank_min, uint32_t rank_max)
{
    const struct remat_value_info *value = remat_input(graph, node, k);
    if (value->dtype != dtype)
        return INVALID(ctx, "input %u has type %s, expected %s", k, remat_dtype_name(value->dtype),
                       remat_dtype_name(dtype));
    if (value->shape.rank >= rank_min && value->shape.rank <= rank_max)
        return REMAT_OK;
    return INVALID(ctx, "input %u has shape %s, expected rank %s%u", k, SHAPE_TEXT(&value->shape),
                   rank_min == rank_max ? "" : "at least ", rank_min);
}

remat_status remat_check_computed(remat_context *ctx, const struct remat_graph *graph,
                                  const struct remat_node_info *node, uint32_t k)
{
    remat_dtype dtype = remat_input(graph, node, k)->dtype;
    return remat_dtype_is_computed(dtype) ? REMAT_OK
                                          : INVALID(ctx, "input %u has type %s, expected %s", k,
                                                    remat_dtype_name(dtype), remat_computed_dtypes);
}

remat_status remat_check_shape(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k,
                               const struct remat_shape *expected)
{
    const struct remat_shape *shape = remat_input_shape(graph, node, k);
    if (remat_shape_equal(shape, expected))
        return REMAT_OK;
    return INVALID(ctx, "input %u has shape %s, expected %s", k, SHAPE_TEXT(shape),
                   SHAPE_TEXT(expected));
}

/* --- attributes --- */

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
