/* SPDX-License-Identifier: Apache-2.0 */
#include "curve.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

double curve_overhead(const struct curve *c, double time)
{
    return c->base_time > 0 ? time / c->base_time - 1 : 0;
}

double curve_gap(const struct curve_point *p)
{
    return isnan(p->lower_bound) || p->lower_bound > 0 ? p->time / p->lower_bound - 1 : 0;
}

void curve_number(struct remat_text *text, double value)
{
    struct remat_text digits = {.arena = text->arena};
    for (int precision = 1; precision <= 17; precision++) {
        digits.count = 0;
        remat_text_append(&digits, "%.*g", precision, value);
        if (digits.failed || strtod(digits.items, NULL) == value)
            break;
    }
    if (fabs(value) < 0x1p53 && value == floor(value))
        remat_text_append(text, "%.0f", value);
    else
        remat_text_append(text, "%s", digits.failed ? "0" : digits.items);
}

/* What a point has beside its memory. */
struct figure {
    const char *name;
    double value; /* NAN: not known */
};
enum { FIGURES = 4 };

static void list_figures(const struct curve *c, const struct curve_point *p,
                         struct figure out[FIGURES])
{
    out[0] = (struct figure){"time", p->time};
    out[1] = (struct figure){"overhead", curve_overhead(c, p->time)};
    out[2] = (struct figure){"lower_bound", p->lower_bound};
    out[3] = (struct figure){"gap", curve_gap(p)};
}

void curve_csv(struct remat_text *text, const struct curve *c)
{
    bool named = c->count > 0 && c->points[0].plan;
    remat_text_append(text, "budget,feasible,peak,time,overhead,lower_bound,gap%s\n",
                      named ? ",plan" : "");
    for (uint32_t i = 0; i < c->count; i++) {
        const struct curve_point *p = &c->points[i];
        struct figure figures[FIGURES];
        list_figures(c, p, figures);
        remat_text_append(text, "%" PRIu64 ",%d,%" PRIu64, p->budget, p->fits, p->peak);
        for (int k = 0; k < FIGURES; k++) {
            remat_text_append(text, ",");
            if (p->fits && !isnan(figures[k].value))
                curve_number(text, figures[k].value);
        }
        if (named)
            remat_text_append(text, ",\"%s\"", p->plan);
        remat_text_append(text, "\n");
    }
}

void curve_json(struct remat_text *text, const struct curve *c)
{
    remat_text_append(text, "[");
    for (uint32_t i = 0; i < c->count; i++) {
        const struct curve_point *p = &c->points[i];
        struct figure figures[FIGURES];
        list_figures(c, p, figures);
        remat_text_append(text,
                          "%s\n    {\"budget\": %" PRIu64 ", \"feasible\": %s, \"peak\": %" PRIu64,
                          i ? "," : "", p->budget, p->fits ? "true" : "false", p->peak);
        for (int k = 0; p->fits && k < FIGURES; k++) {
            remat_text_append(text, ", \"%s\": ", figures[k].name);
            if (isnan(figures[k].value))
                remat_text_append(text, "null");
            else
                curve_number(text, figures[k].value);
        }
        if (p->plan)
            remat_text_append(text, ", \"plan\": \"%s\"", p->plan);
        remat_text_append(text, "}");
    }
    remat_text_append(text, "\n  ]");
}
