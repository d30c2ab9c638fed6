/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_LAYOUT_HANDED_H
#define REMAT_LAYOUT_HANDED_H

#include "layout_finder.h"

/* Fills f->handed from the readers. Layers hand on the values that every way from an input to
 * the loss passes. */
void remat_layout_find_handed(struct finder *f);

#endif
