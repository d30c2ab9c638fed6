/* SPDX-License-Identifier: Apache-2.0 */
/* The curve as a picture. */
#ifndef REMAT_TOOLS_CURVE_SVG_H
#define REMAT_TOOLS_CURVE_SVG_H

#include "curve.h"

enum { CURVE_KINDS = 7 };
/* A setting of other systems, in a picture. */
struct curve_mark {
    const char *name;
    uint32_t kind;       /* below CURVE_KINDS: shape and colour */
    const char *systems; /* that have it, for the legend; the same for a kind */
    uint64_t budget;
    double time;
};

/* What a picture has beside the curve. */
struct curve_picture {
    const char *title, *time; /* time: "step time", what it is */
    /* NULL, 0: nothing. */
    const char *subtitle;
    const char *device;
    uint64_t capacity;              /* bytes, of the device */
    const struct curve_mark *marks; /* those to be labelled first come first */
    uint32_t mark_count;
};

/* Overhead in percent, in steps, as a budget between two points gives the plan of the smaller one;
 * below it a band down to the lower bound. Budgets without a plan are ticks on the axis. Marks are
 * left out where they would make the picture much higher or wider, labels where there is no room.
 * curve->picture is not NULL. */
void curve_svg(struct remat_text *text, const struct curve *curve);

#endif
