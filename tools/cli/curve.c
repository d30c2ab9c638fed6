/* SPDX-License-Identifier: Apache-2.0 */
#include "curve.h"

#include "cli.h"
#include "size.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { WIDTH = 720, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50, TICKS = 5 };

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

/* --- the picture --- */

struct frame {
    double low, high;    /* budgets */
    double bottom, step; /* percent; step: between ticks */
};

static double x_of(const struct frame *f, double budget)
{
    double width = f->high > f->low ? f->high - f->low : 1;
    return LEFT + (budget - f->low) / width * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double percent)
{
    return HEIGHT - BOTTOM - (percent - f->bottom) / (TICKS * f->step) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, at least as large. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    return value <= power       ? power
           : value <= 2 * power ? 2 * power
           : value <= 5 * power ? 5 * power
                                : 10 * power;
}

static struct frame make_frame(const struct curve *c)
{
    struct frame f = {.low = (double)c->points[c->count - 1].budget,
                      .high = (double)c->points[0].budget};
    double least = 0, most = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        double percent = 100 * curve_overhead(c, c->points[i].time);
        double bound = 100 * curve_overhead(c, c->points[i].lower_bound);
        if (!c->points[i].fits)
            continue;
        most = fmax(most, percent);
        least = fmin(least, fmin(percent, bound)); /* fmin passes over NAN */
    }
    f.step = most - least > 1e-6 ? round_up((most - least) / TICKS) : 1.0 / TICKS;
    f.bottom = floor(least / f.step) * f.step;
    while (f.bottom + TICKS * f.step < most) {
        f.step = round_up(1.5 * f.step);
        f.bottom = floor(least / f.step) * f.step;
    }
    return f;
}

static void draw_axes(struct remat_text *text, const struct frame *f)
{
    remat_text_append(text, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444\"/>\n", LEFT, TOP,
                      HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (int i = 0; i <= TICKS; i++) {
        double budget = f->low + (f->high - f->low) * i / TICKS, percent = f->bottom + f->step * i;
        remat_text_append(text,
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g %%</text>\n",
                          x_of(f, budget), HEIGHT - BOTTOM + 18, cli_short((uint64_t)budget).text,
                          LEFT - 6, y_of(f, percent) + 4, percent);
    }
    remat_text_append(text,
                      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">budget</text>\n"
                      "<text x=\"%d\" y=\"%d\">overhead; dashed: lower bound</text>\n",
                      (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, LEFT, TOP - 16);
}

static void draw_line(struct remat_text *text, const struct curve *c, const struct frame *f,
                      bool bound, const char *style)
{
    const char *separator = "";
    remat_text_append(text, "<polyline fill=\"none\" %s points=\"", style);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct curve_point *p = &c->points[i];
        double percent = 100 * curve_overhead(c, bound ? p->lower_bound : p->time);
        if (!p->fits || isnan(percent))
            continue;
        remat_text_append(text, "%s%.1f,%.1f", separator, x_of(f, (double)p->budget),
                          y_of(f, percent));
        separator = " ";
    }
    remat_text_append(text, "\"/>\n");
}

void curve_svg(struct remat_text *text, const struct curve *c)
{
    struct frame f = make_frame(c);
    remat_text_append(text,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                      "font-family=\"sans-serif\" font-size=\"12\">\n"
                      "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                      WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_axes(text, &f);
    draw_line(text, c, &f, true, "stroke=\"#888\" stroke-dasharray=\"4 3\"");
    draw_line(text, c, &f, false, "stroke=\"#0057b8\" stroke-width=\"2\"");
    for (uint32_t i = 0; i < c->count; i++) {
        const struct curve_point *p = &c->points[i];
        double x = x_of(&f, (double)p->budget);
        if (p->fits)
            remat_text_append(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#0057b8\"/>\n",
                              x, y_of(&f, 100 * curve_overhead(c, p->time)));
        else
            remat_text_append(text, "<path d=\"M%.1f %dv-8\" stroke=\"#c00\"/>\n", x,
                              HEIGHT - BOTTOM);
    }
    remat_text_append(text, "</svg>\n");
}
