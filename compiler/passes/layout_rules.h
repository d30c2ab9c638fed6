/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_LAYOUT_RULES_H
#define REMAT_LAYOUT_RULES_H

#include "layout_finder.h"

/* Splits the result of a pointwise node along an axis, or along all up to it, and operands with it.
 * False: some cannot be, and nothing has changed. */
bool remat_layout_split_along(struct finder *f, const struct rule_of *r, uint32_t axis,
                              const struct remat_place *place);

#endif
