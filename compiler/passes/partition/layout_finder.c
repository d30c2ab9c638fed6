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

remat_status remat_layout_check_tokens(const struct finder *f)
{
    for (uint32_t v = 0; v < f->graph->value_count; v++) {
        const struct remat_value_info *info = &f->graph->values[v];
        if (f->graph->sequence_parallel && info->batched && info->shape.rank == 2 &&
            remat_shape_elements(&info->shape) % f->ranks)
            return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                               "value \"%.400s\": dimensions 0 and 1, of %lld and %lld, are a "
                               "number of tokens that is not divisible by %lld ranks along %s, as "
                               "--sequence-parallel needs it",
                               info->name, (long long)info->shape.dims[0],
                               (long long)info->shape.dims[1], (long long)f->ranks, f->axis);
    }
    return REMAT_OK;
}
