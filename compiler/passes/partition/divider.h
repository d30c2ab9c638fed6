/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the pass tensor_parallel:
 * tensor_parallel.c   nodes on this rank's part of their operands
 * divide_layouts.c    from layout to layout
 * divide_random.c     random numbers in parts
 * divide_gradients.c  gradients in their parameters' layouts */
#ifndef REMAT_DIVIDER_H
#define REMAT_DIVIDER_H

#include "builder.h"
#include "layout.h"
#include "rebuild.h"

#define REMAT_DIVIDE_AXIS "tp"

struct pooled_gradient {
    remat_value gradient, term; /* an old and a new value */
};

struct divider {
    struct remat_rebuild r;
    struct remat_builder b;
    struct remat_layouts layouts;
    int64_t ranks;
    struct reading { /* a value in another layout than the one it is computed in */
        struct remat_layout layout;
        remat_value value;
        struct reading *next;
    } * *readings;  /* by old value, the latest first */
    uint32_t *uses; /* by old value */
    struct REMAT_LIST(struct pooled_gradient) pool;
    int64_t pool_elements;
    uint32_t pool_count;    /* number of pools finished so far */
    remat_value coordinate; /* REMAT_NO_VALUE: not needed so far */
    remat_value number;     /* the coordinate in f32 */
    /* Values drawn in several parts: the part's number, i32 [1], by part; and its random state, by
     * number of parts and part. */
    remat_value entries[REMAT_LAYOUT_ENTRIES_MAX];
    remat_value states[REMAT_LAYOUT_ENTRIES_MAX + 1][REMAT_LAYOUT_ENTRIES_MAX];
    remat_value rng;     /* the random state that `states` derive from */
    remat_value **parts; /* by old value: attention's result for each entry; NULL: not divided */
};

/* The shape of this rank's part of an old value. */
static inline struct remat_shape remat_divide_shape(const struct divider *d, remat_value old)
{
    return remat_layout_shape(&d->r.from->values[old.i].shape, d->layouts.made[old.i], d->ranks);
}

/* Replaces an old value by x, which has the layout found for it. */
static inline void remat_divide_stand_for(struct divider *d, remat_value old, remat_value x)
{
    remat_rebuild_replace(&d->r, old, x);
    d->r.to->values[x.i].shape = remat_divide_shape(d, old);
}

/* divide_layouts.c: from layout to layout */

/* This rank's coordinate along "tp", i32 [1]. */
remat_value remat_divide_coordinate(struct divider *d);
/* This rank's coordinate times `count`, f32 [1]: the first of its `count` elements. */
remat_value remat_divide_first_of(struct divider *d, int64_t count);

/* Records which part of an old value x is, in a split layout. */
void remat_divide_mark_part(struct divider *d, remat_value old, struct remat_layout layout,
                            remat_value x);

/* Concatenates along axis 0; copies a single value. */
remat_value remat_divide_concat(struct divider *d, const remat_value *items, uint32_t count);
/* The sum or maximum, in f32, of the rows of [ranks, ..] in their order, each of this shape. */
remat_value remat_divide_combine(struct divider *d, remat_value rows, uint8_t kind,
                                 const struct remat_shape *shape);

bool remat_divide_equal(struct remat_layout a, struct remat_layout b);
/* An old value converted to a reader's layout. */
remat_value remat_divide_read(struct divider *d, remat_value old, struct remat_layout layout);

/* divide_random.c: a rank draws the numbers of its part of the whole tensor */

/* Divides attention with dropout; the masks of its entries are drawn one by one. */
void remat_divide_attention(struct divider *d, const struct remat_node_info *node,
                            const remat_value *inputs);
/* Divides a node of op random. */
void remat_divide_random(struct divider *d, const struct remat_node_info *node, remat_value rng);

/* divide_gradients.c: gradients in their parameters' layouts. Small unfinished ones, such as those
 * of norms and biases, are pooled and finished together. */

/* True if a gradient with a term in this layout is unfinished and small enough to be pooled. */
bool remat_divide_is_pooled(const struct divider *d, remat_value gradient,
                            struct remat_layout term);
/* Adds `term`, a new value, to the pool. */
void remat_divide_pool(struct divider *d, remat_value gradient, remat_value term);
/* Finishes the pooled gradients. */
void remat_divide_empty_pool(struct divider *d);

#endif
