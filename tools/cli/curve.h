/* SPDX-License-Identifier: Apache-2.0 */
/* Time against budget, as a table and as a picture. */
#ifndef REMAT_TOOLS_CURVE_H
#define REMAT_TOOLS_CURVE_H

#include "base.h"

struct curve_point {
    uint64_t budget; /* bytes; points descend */
    bool fits;       /* else `peak` is the least found, and there are no times */
    uint64_t peak;
    double time, lower_bound; /* any unit, the same for all; lower_bound NAN: not known */
    const char *plan;         /* its name, for all points or none; NULL: none */
};

struct curve {
    const struct curve_point *points;
    uint32_t count;
    double base_time;                    /* what overheads are relative to; 0: overheads are 0 */
    const struct curve_picture *picture; /* for curve_svg.c; NULL: none */
};

double curve_overhead(const struct curve *curve, double time);
double curve_gap(const struct curve_point *point);

/* budget,feasible,peak,time,overhead,lower_bound,gap[,plan] */
void curve_csv(struct remat_text *text, const struct curve *curve);
/* The array of points, objects with the same names, each on a line. */
void curve_json(struct remat_text *text, const struct curve *curve);
/* The shortest text that reads back as the same number. */
void curve_number(struct remat_text *text, double value);

enum { CURVE_KINDS = 7 };
/* A setting of other systems, in a picture. */
struct curve_mark {
    const char *name;
    uint32_t kind;       /* below CURVE_KINDS: shape and colour */
    const char *systems; /* that have it, for the legend; the same for a kind */
    uint64_t budget;
    double time;
};

/* The parts of a picture beside the curve. */
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
