/* SPDX-License-Identifier: Apache-2.0 */
/* How a value lies in the storage that it is a view of. */
#ifndef REMAT_VIEW_H
#define REMAT_VIEW_H

#include "graph.h"

struct remat_view {
    remat_value root; /* the value that owns the bytes */
    uint32_t rank;
    int64_t shape[REMAT_RANK_MAX];
    int64_t strides[REMAT_RANK_MAX]; /* elements of the root's dtype */
    uint64_t offset_elements;
};

/* Composes the chain of view ops from the root to `value`, of a verified graph. */
struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value);

/* The view over the axes of `space`, to which it broadcasts (right-aligned): repeated axes get
 * stride 0. */
struct remat_view remat_view_broadcast(struct remat_view view, const struct remat_shape *space);

/* Row-major over all of its root, from element 0 on, without gaps but those of the root's pitch. */
bool remat_view_is_whole(const struct remat_view *view, const struct remat_value_info *root);

#endif
