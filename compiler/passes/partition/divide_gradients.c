/* SPDX-License-Identifier: Apache-2.0 */
#include "divider.h"

#include "builder.h"
#include "rebuild.h"

#define POOL_ELEMENTS (1 << 20) /* of those that are finished together */

bool remat_divide_is_pooled(const struct divider *d, remat_value gradient, struct remat_layout term)
{
    const struct remat_value_info *info = &d->r.from->values[gradient.i];
    return info->role == REMAT_ROLE_GRADIENT && d->uses[gradient.i] == 0 &&
           d->layouts.of[gradient.i].kind == REMAT_LAYOUT_WHOLE && term.kind == REMAT_LAYOUT_SUM &&
           remat_shape_elements(&info->shape) <= POOL_ELEMENTS;
}

/* Concatenates any number of items. */
static remat_value line_up(struct divider *d, remat_value *items, size_t count)
{
    const size_t most = REMAT_LAYOUT_ENTRIES_MAX;
    while (count > 1) {
        size_t left = 0;
        for (size_t k = 0; k < count; k += most) {
            uint32_t some = (uint32_t)(count - k < most ? count - k : most);
            items[left++] = some == 1 ? items[k] : remat_divide_concat(d, &items[k], some);
        }
        count = left;
    }
    return items[0];
}

/* All are gathered at once, for latency is most of the transfer of each. */
void remat_divide_empty_pool(struct divider *d)
{
    struct remat_builder *b = &d->b;
    remat_value *items = remat_array(d->r.arena, d->pool.count, sizeof *items);
    struct remat_shape all = {2, {d->ranks, d->pool_elements}};
    int64_t begin = 0;
    if (d->pool.count == 0)
        return;
    b->scope = REMAT_TOP;
    b->phase = remat_producer_info(d->r.from, d->pool.items[0].gradient)->phase;
    b->prefix = REMAT_FORMAT(d->r.arena, REMAT_DIVIDE_AXIS ".gradients_%u", d->pool_count++);
    b->counter = 0;
    for (size_t k = 0; k < d->pool.count; k++) {
        remat_value x = remat_build_cast(b, d->pool.items[k].term, REMAT_F32);
        int64_t elements = remat_shape_elements(&b->graph->values[x.i].shape);
        items[k] = remat_build_reshape(b, x, &elements, 1);
    }
    remat_value rows =
        remat_build_gather(b, REMAT_DIVIDE_AXIS, line_up(d, items, d->pool.count), &all);
    for (size_t k = 0; k < d->pool.count; k++) {
        remat_value gradient = d->pool.items[k].gradient;
        const struct remat_value_info *info = &d->r.from->values[gradient.i];
        int64_t end = begin + remat_shape_elements(&info->shape);
        remat_value x = remat_build_slice(b, rows, 1, begin, end);
        x = remat_divide_combine(d, x, REMAT_LAYOUT_SUM, &info->shape);
        remat_rebuild_replace(&d->r, gradient, remat_build_cast(b, x, info->dtype));
        begin = end;
    }
    d->pool.count = 0;
    d->pool_elements = 0;
}

void remat_divide_pool(struct divider *d, remat_value gradient, remat_value term)
{
    int64_t elements = remat_shape_elements(&d->r.from->values[gradient.i].shape);
    if (d->pool_elements + elements > POOL_ELEMENTS)
        remat_divide_empty_pool(d);
    REMAT_PUSH(d->r.arena, &d->pool, ((struct pooled_gradient){gradient, term}));
    d->pool_elements += elements;
}
