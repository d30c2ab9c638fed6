/* SPDX-License-Identifier: Apache-2.0 */
/* Views: which part of which value a value is. */
#ifndef REMAT_VIEW_H
#define REMAT_VIEW_H

#include "ops.h"

/* How a value lies in its storage root. */
struct remat_view {
    remat_value root; /* none where there is no such view */
    uint32_t rank;
    int64_t shape[REMAT_RANK_MAX];
    int64_t strides[REMAT_RANK_MAX]; /* elements of the root's dtype */
    uint64_t offset_elements;
};

#define REMAT_VIEW_CHAIN_MAX 64

/* The shape that the attribute "shape" says. */
remat_status remat_shape_of_attribute(remat_context *ctx, const struct remat_node_info *node,
                                      struct remat_shape *out);

/* That one more view can be made of x: no chain is longer than REMAT_VIEW_CHAIN_MAX. */
bool remat_can_view(const struct remat_graph *graph, remat_value x);

/* That a reshape of x is a view. */
bool remat_can_reshape(const struct remat_graph *graph, remat_value x,
                       const struct remat_shape *to);

/* Follows the views. None only where a reshape meets strides that it cannot view (a copy is a
 * concat of one input), or beyond REMAT_VIEW_CHAIN_MAX views: verified graphs contain neither. */
struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value);

#endif
