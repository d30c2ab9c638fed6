/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks along an axis of the mesh divide the values of a graph of primitive ops. Private.
 *
 * A value is whole on every rank, split, or unfinished: what each rank has is one term of it. Of a
 * split value rank t has the elements whose row-major index i has i / run mod ranks = t. So columns
 * of q, k and v in one product can be dealt out as well as rows, and no reshape changes a layout.
 */
#ifndef REMAT_LAYOUT_H
#define REMAT_LAYOUT_H

#include "passes.h"

/* Of a batch, whose heads are divided where attention has dropout: as many as concat joins. */
#define REMAT_LAYOUT_ENTRIES_MAX 16

enum remat_layout_kind {
    REMAT_LAYOUT_OPEN, /* of a parameter that nothing was read as yet */
    REMAT_LAYOUT_WHOLE,
    REMAT_LAYOUT_SPLIT,
    REMAT_LAYOUT_SUM,     /* of all ranks' */
    REMAT_LAYOUT_MAXIMUM, /* of all ranks' */
    /* Only read: a part of as many copies as make `run` elements on each rank. */
    REMAT_LAYOUT_COPIES,
};

struct remat_layout {
    uint8_t kind;
    /* Of a split value: over tokens, which gives way to other splits. Of a sum: it is finished into
     * such parts. */
    bool tokens;
    int64_t run; /* of these: elements, else 0 */
};

/* Where a shape is split: dims[axis] = blocks * ranks * width. */
struct remat_place {
    uint32_t axis;
    int64_t blocks, width;
    bool tokens; /* of the layout */
    bool joint;  /* along all axes up to this one together: parts begin within sequences */
};
/* False: it is not split, or not along one axis. */
bool remat_layout_place(const struct remat_shape *shape, struct remat_layout layout, int64_t ranks,
                        struct remat_place *out);

/* The shape of a rank's part. */
struct remat_shape remat_layout_shape(const struct remat_shape *shape, struct remat_layout layout,
                                      int64_t ranks);

struct remat_layouts {
    struct remat_layout *made; /* by value: as its node computes it, or the host gives it */
    struct remat_layout *of;   /* by value: as it is read; a gradient has that of its parameter */
    struct remat_layout **wanted; /* by node: as it reads its inputs */
};

/* Of a graph without composite ops. INVALID: a dimension is not divisible; the message names it,
 * its value and the axis. */
remat_status remat_layouts_find(struct remat_arena *arena, const struct remat_graph *graph,
                                const char *axis, struct remat_layouts *out);

#endif
