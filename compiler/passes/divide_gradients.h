/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in their parameters' layouts. Small ones that are unfinished, as those of norms and
 * biases, are finished together. */
#ifndef REMAT_DIVIDE_GRADIENTS_H
#define REMAT_DIVIDE_GRADIENTS_H

#include "divider.h"

/* The gradient is finished from a term in this layout, and can wait for others. */
bool remat_divide_is_pooled(const struct divider *d, remat_value gradient,
                            struct remat_layout term);
/* `term`: a new value. */
void remat_divide_pool(struct divider *d, remat_value gradient, remat_value term);
/* Finishes those that wait. */
void remat_divide_empty_pool(struct divider *d);

#endif
