/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_LAYOUT_STATED_H
#define REMAT_LAYOUT_STATED_H

#include "layout_finder.h"

/* Fills `stated`. INVALID: a dimension is not divisible, or a graph input is a whole output. */
remat_status remat_layout_read_stated(struct finder *f);

/* INVALID: a value is stated otherwise than `by` needs it. */
remat_status remat_layout_contradict(const struct finder *f, remat_value v,
                                     struct remat_layout found, remat_value by);
/* The same where both are splits, and other ones; a split over tokens gives way. */
remat_status remat_layout_check_stated(const struct finder *f, remat_value v,
                                       struct remat_layout found, remat_value by);

#endif
