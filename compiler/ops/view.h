/* SPDX-License-Identifier: Apache-2.0 */
/* Strided views: how a value lies in the memory of another. */
#ifndef REMAT_VIEW_H
#define REMAT_VIEW_H

#include "ops.h"

struct remat_view {
    remat_value root; /* the storage root; none: not a view */
    uint32_t rank;
    int64_t shape[REMAT_RANK_MAX];
    int64_t strides[REMAT_RANK_MAX]; /* elements of the root's dtype */
    uint64_t offset_elements;
};

#define REMAT_VIEW_CHAIN_MAX 64

/* True if one more view of x keeps its chain of views within REMAT_VIEW_CHAIN_MAX. */
bool remat_can_view(const struct remat_graph *graph, remat_value x);

/* True if a reshape of x needs no copy. */
bool remat_can_reshape(const struct remat_graph *graph, remat_value x,
                       const struct remat_shape *to);

/* Follows the chain of views to the storage root. None if a reshape would need a copy, or after
 * REMAT_VIEW_CHAIN_MAX views; verified graphs contain neither. */
struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value);

#endif
