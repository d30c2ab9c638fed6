/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_LAYOUT_NARROW_H
#define REMAT_LAYOUT_NARROW_H

#include "layout_finder.h"

/* Where node n computes a whole of which each rank reads only its part, it computes that. When all
 * layouts are found, from the last node to the first. */
void remat_layout_narrow(struct finder *f, remat_node n);

#endif
