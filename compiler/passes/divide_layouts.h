/* SPDX-License-Identifier: Apache-2.0 */
/* From layout to layout. */
#ifndef REMAT_DIVIDE_LAYOUTS_H
#define REMAT_DIVIDE_LAYOUTS_H

#include "divider.h"

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

#endif
