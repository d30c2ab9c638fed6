/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: how the ranks along an axis of the mesh divide the values of a graph of primitive ops.
 * Private.
 *
 * A value is whole on every rank, split, or unfinished: each rank has one term of a sum. If a value
 * is split, rank t has the elements whose row-major index i satisfies i / run mod ranks = t. This
 * covers rows, and the columns of q, k and v in one product, and no reshape changes a layout. */
#ifndef REMAT_LAYOUT_H
#define REMAT_LAYOUT_H

#include "passes.h"

/* Largest batch whose heads can be divided if attention has dropout: as many entries as concat
 * joins. */
#define REMAT_LAYOUT_ENTRIES_MAX 16

enum remat_layout_kind {
    REMAT_LAYOUT_OPEN, /* a parameter that no node has read yet */
    REMAT_LAYOUT_WHOLE,
    REMAT_LAYOUT_SPLIT,
    REMAT_LAYOUT_SUM,     /* unfinished: the sum over all ranks */
    REMAT_LAYOUT_MAXIMUM, /* unfinished: the maximum over all ranks */
    /* Reads only: copies of the value, concatenated, of which each rank takes `run` elements. */
    REMAT_LAYOUT_COPIES,
};

struct remat_layout {
    uint8_t kind;
    /* A split over tokens, which gives way to other splits; a sum that is finished into one. */
    bool tokens;
    int64_t run; /* a split's: elements; else 0 */
};

/* --- layout_place.c --- */

/* The axis of a shape that is split: dims[axis] = blocks * ranks * width. */
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

/* --- layout_finder.c --- */

struct remat_layouts {
    struct remat_layout *made; /* by value: as its node computes it, or the host gives it */
    struct remat_layout *of;   /* by value: as it is read; a gradient has that of its parameter */
    struct remat_layout **wanted; /* by node: as it reads its inputs */
};

/* Finds all layouts of a graph without composite ops. INVALID: a dimension is not divisible; the
 * message names it, its value and the axis. */
remat_status remat_layouts_find(struct remat_arena *arena, const struct remat_graph *graph,
                                const char *axis, bool sequence_parallel,
                                struct remat_layouts *out);

#endif
