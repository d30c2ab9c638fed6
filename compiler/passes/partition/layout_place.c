/* SPDX-License-Identifier: Apache-2.0 */
/* Places and shapes of layouts, and refusals of those that do not divide. */
#include "layout_finder.h"

#include <assert.h>
#include <inttypes.h>

bool remat_layout_place(const struct remat_shape *shape, struct remat_layout layout, int64_t ranks,
                        struct remat_place *out)
{
    assert(ranks > 0 && (layout.kind != REMAT_LAYOUT_SPLIT || layout.run > 0));
    int64_t after = 1, run = layout.run, total = remat_shape_elements(shape);
    if (layout.kind != REMAT_LAYOUT_SPLIT)
        return false;
    for (uint32_t d = shape->rank; d-- > 0; after *= shape->dims[d]) {
        int64_t all = after * shape->dims[d];
        bool along = all % (run * ranks) == 0;
        bool joint = layout.tokens && d + 1 < shape->rank && run * ranks == total;
        if (run % after || run % all == 0 || (!along && !joint))
            continue;
        *out = (struct remat_place){.axis = d,
                                    .blocks = along ? all / (run * ranks) : 1,
                                    .width = run / after,
                                    .tokens = layout.tokens,
                                    .joint = !along};
        return true;
    }
    return false;
}

struct remat_shape remat_layout_shape(const struct remat_shape *shape, struct remat_layout layout,
                                      int64_t ranks)
{
    struct remat_shape out = *shape;
    struct remat_place place;
    if (!remat_layout_place(shape, layout, ranks, &place))
        return out;
    for (uint32_t d = 0; place.joint && d < place.axis; d++)
        out.dims[d] = 1;
    out.dims[place.axis] = place.joint ? place.width : out.dims[place.axis] / ranks;
    return out;
}

remat_status remat_layout_refuse_blocks(const struct layout_finder *f, remat_value v,
                                        uint32_t dimension, int64_t block, const char *advice)
{
    assert(dimension < shape_of(f, v)->rank);
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

remat_status remat_layout_refuse(const struct layout_finder *f, remat_value v, uint32_t dimension)
{
    return remat_layout_refuse_blocks(f, v, dimension, shape_of(f, v)->dims[dimension], "");
}

remat_status remat_layout_check_tokens(const struct layout_finder *f)
{
    for (uint32_t v = 0; v < f->graph->value_count; v++) {
        const struct remat_value_info *info = &f->graph->values[v];
        if (f->sequence_parallel && info->batched && info->shape.rank == 2 &&
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
