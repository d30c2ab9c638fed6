/* SPDX-License-Identifier: Apache-2.0 */
#include "constant.h"

#include <math.h>

/* No NaN: there is one way to write each element, and it equals itself. */
static bool has_nan(const void *data, uint64_t bytes)
{
    float element;
    for (uint64_t at = 0; at < bytes; at += sizeof element) {
        memcpy(&element, (const char *)data + at, sizeof element);
        if (isnan(element))
            return true;
    }
    return false;
}

const char *remat_constant_find_fault(const struct remat_value_info *value, uint64_t bytes)
{
    if (value->role != REMAT_ROLE_CONSTANT || !remat_is_none(value->node.i))
        return "data, but no constant";
    if (value->dtype != REMAT_F32 && value->dtype != REMAT_I32)
        return "data that are not f32 or i32";
    if (value->initializer)
        return "data, and an initial value besides";
    if (value->stated && value->stated->blocks)
        return "data, of which all ranks have the whole, but its layout is split";
    for (uint32_t d = 0; d < value->shape.rank; d++)
        if (remat_is_symbol(value->shape.dims[d]))
            return "data, but one of its lengths is a symbol";
    if (bytes != remat_value_bytes(value))
        return "its data are more or fewer than its elements";
    return value->dtype == REMAT_F32 && has_nan(value->data, bytes)
               ? "an element of its data is not a number"
               : NULL;
}

remat_value remat_constant_find_or_add(struct remat_arena *arena, const struct remat_graph *graph,
                                       struct remat_index *index, remat_value value)
{
    const struct remat_value_info *info = &graph->values[value.i];
    uint64_t bytes = remat_value_bytes(info), hash = remat_hash(info->data, bytes, info->dtype);
    remat_value equal;
    for (size_t at = 0; (equal.i = remat_index_find(index, hash, &at)) != REMAT_NONE;) {
        const struct remat_value_info *other = &graph->values[equal.i];
        if (remat_type_equal(other, info) && memcmp(other->data, info->data, bytes) == 0)
            return equal;
    }
    remat_index_add(arena, index, hash, value.i);
    return value;
}
