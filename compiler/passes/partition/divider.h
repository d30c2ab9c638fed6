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

struct pooled {
    remat_value gradient, term; /* an old and a new value */
};

struct divider {
    struct remat_rebuild r;
    struct remat_builder b;
    struct remat_layouts layouts;
    int64_t ranks;
    struct reading { /* in another layout than it is computed in */
        struct remat_layout layout;
        remat_value value;
        struct reading *next;
    } * *readings;  /* by old value, the last one made first */
    uint32_t *uses; /* of each old value */
    struct REMAT_LIST(struct pooled) pool;
    int64_t pool_elements;
    uint32_t pool_count;    /* of those that were emptied */
    remat_value coordinate; /* REMAT_NO_VALUE: nothing has needed it yet */
    remat_value number;     /* the coordinate in f32 */
    /* Of what is drawn in several parts, by the part: its number, i32 [1]; and by how many there
     * are: its random state. */
    remat_value entries[REMAT_LAYOUT_ENTRIES_MAX];
    remat_value states[REMAT_LAYOUT_ENTRIES_MAX + 1][REMAT_LAYOUT_ENTRIES_MAX];
    remat_value rng;     /* that they are of */
    remat_value **parts; /* by old value: of each entry, as attention made it; NULL: it did not */
};

/* The shape of this rank's part of an old value. */
static inline struct remat_shape remat_divide_shape(const struct divider *d, remat_value old)
{
    return remat_layout_shape(&d->r.from->values[old.i].shape, d->layouts.made[old.i], d->ranks);
}

/* Lets x, in the layout that was found for it, stand for an old value. */
static inline void remat_divide_stand_for(struct divider *d, remat_value old, remat_value x)
{
    remat_rebuild_replace(&d->r, old, x);
    d->r.to->values[x.i].shape = remat_divide_shape(d, old);
}

/* divide_layouts.c: from layout to layout */

/* This rank's along "tp", i32 [1]. */
remat_value remat_divide_coordinate(struct divider *d);
/* The first of this rank's `count`, f32 [1]. */
remat_value remat_divide_first_of(struct divider *d, int64_t count);

/* Says which part of an old value x is, in a split layout. */
void remat_divide_mark_part(struct divider *d, remat_value old, struct remat_layout layout,
                            remat_value x);

/* Along axis 0; of one value: a copy. */
remat_value remat_divide_concat(struct divider *d, const remat_value *items, uint32_t count);
/* The sum or maximum, in f32, of the rows of [ranks, ..] in their order, each of this shape. */
remat_value remat_divide_combine(struct divider *d, remat_value rows, uint8_t kind,
                                 const struct remat_shape *shape);

bool remat_divide_equal(struct remat_layout a, struct remat_layout b);
/* An old value in this layout, for a reader. */
remat_value remat_divide_read(struct divider *d, remat_value old, struct remat_layout layout);

/* divide_random.c: a rank draws what lies there in the whole tensor */

/* Attention with dropout, whose entries are drawn one by one. */
void remat_divide_attention(struct divider *d, const struct remat_node_info *node,
                            const remat_value *inputs);
/* A node random. */
void remat_divide_random(struct divider *d, const struct remat_node_info *node, remat_value rng);

/* divide_gradients.c: gradients in their parameters' layouts. Small ones that are unfinished, as
 * those of norms and biases, are finished together. */

/* The gradient is finished from a term in this layout, and can wait for others. */
bool remat_divide_is_pooled(const struct divider *d, remat_value gradient,
                            struct remat_layout term);
/* `term`: a new value. */
void remat_divide_pool(struct divider *d, remat_value gradient, remat_value term);
/* Finishes those that wait. */
void remat_divide_empty_pool(struct divider *d);

#endif
