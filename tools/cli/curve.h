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
    const struct curve_picture *picture; /* for curve_svg.h; NULL: none */
};

double curve_overhead(const struct curve *curve, double time);
double curve_gap(const struct curve_point *point);

/* budget,feasible,peak,time,overhead,lower_bound,gap[,plan] */
void curve_csv(struct remat_text *text, const struct curve *curve);
/* The array of points, objects with the same names, each on a line. */
void curve_json(struct remat_text *text, const struct curve *curve);
/* The shortest text that reads back as the same number. */
void curve_number(struct remat_text *text, double value);

#endif
