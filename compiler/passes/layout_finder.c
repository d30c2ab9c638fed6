/* SPDX-License-Identifier: Apache-2.0 */
#include "layout_finder.h"

#include <inttypes.h>

remat_status remat_layout_refuse_blocks(const struct finder *f, remat_value v, uint32_t dimension,
                                        int64_t block, const char *advice)
{
    const struct remat_value_info *info = &f->graph->values[v.i];
    int64_t length = info->shape.dims[dimension];
    const char *blocks =
        block == length ? "" : REMAT_FORMAT(f->arena, " in blocks of %lld", (long long)block);
    return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                       "value \"%.400s\": dimension %" PRIu32 ", of %lld%s, is not divisible by "
                       "%lld ranks along %s%s",
                       info->name, dimension, (long long)length, blocks, (long long)f->ranks,
                       f->axis, advice);
}

remat_status remat_layout_refuse(const struct finder *f, remat_value v, uint32_t dimension)
{
    return remat_layout_refuse_blocks(f, v, dimension, shape_of(f, v)->dims[dimension], "");
}
