/* SPDX-License-Identifier: Apache-2.0 */
/* Axes span the data; ticks are round. Labels go where their box touches nothing that has been
 * drawn: boxes of all lines, marks and labels are kept for that. */
#include "curve.h"

#include "cli.h"
#include "show.h"
#include "size.h"
#include "unwind.h"

#include <math.h>

enum {
    WIDTH = 800,
    HEIGHT = 460,
    LEFT = 76,
    RIGHT = 24,
    TOP = 92,
    BOTTOM = 56,
    TICKS = 8, /* of an axis, at most */
};
#define LETTER 6.3 /* about the width of one of a label */

/* Light or dark as the reader has it, on its own ground. */
static const char style[] =
    "<style>\n"
    "text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;fill:#57606a}\n"
    ".ground{fill:#fff}.title{font-size:17px;font-weight:600;fill:#1f2328}.label{font-size:11px}\n"
    ".grid{stroke:#d0d7de;stroke-width:.7}.axis{stroke:#8c959f;fill:none}\n"
    ".never{fill:#eaeef2}.band{fill:#54aeff;fill-opacity:.55}\n"
    ".curve{stroke:#0969da;stroke-width:2;fill:none;stroke-linejoin:round}.point{fill:#0969da}\n"
    ".capacity{stroke:#cf222e;stroke-dasharray:5 4}.full{fill:#cf222e}\n"
    ".m0{fill:#57606a}.m1{fill:#1a7f37}.m2{fill:#bc4c00}.m3{fill:#8250df}\n"
    ".m4{fill:#9a6700}.m5{fill:#bf3989}.m6{fill:#1b7c83}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#9198a1}.ground{fill:#0d1117}.title{fill:#f0f6fc}.grid{stroke:#262c36}\n"
    ".axis{stroke:#656c76}.never{fill:#1b222c}.band{fill:#388bfd}.curve{stroke:#58a6ff}\n"
    ".point{fill:#58a6ff}.capacity{stroke:#f85149}.full{fill:#f85149}\n"
    ".m0{fill:#9198a1}.m1{fill:#3fb950}.m2{fill:#f0883e}.m3{fill:#a371f7}\n"
    ".m4{fill:#d29922}.m5{fill:#f778ba}.m6{fill:#39c5cf}}\n"
    "</style>\n";

/* About its centre, by kind. */
static const char *const shapes[CURVE_KINDS] = {
    "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
    "m-4-4h8v8h-8z",
    "m0-5.6l5.6 5.6-5.6 5.6-5.6-5.6z",
    "m0-5.2l5.4 9.4h-10.8z",
    "m0 5.2l5.4-9.4h-10.8z",
    "m-1.6-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
    "m-2.8-4.8h5.6l2.8 4.8-2.8 4.8h-5.6l-2.8-4.8z"};

struct axis {
    double low, high; /* of what is shown */
    double step;      /* between ticks */
};

struct box {
    double left, top, right, bottom;
};

struct drawing {
    struct remat_text *text;
    const struct curve *curve;
    struct axis budget, percent;
    struct REMAT_LIST(struct box) taken;
};

static double x_of(const struct drawing *d, double budget)
{
    double share = (budget - d->budget.low) / (d->budget.high - d->budget.low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct drawing *d, double percent)
{
    double share = (percent - d->percent.low) / (d->percent.high - d->percent.low);
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static double percent_of(const struct drawing *d, double time)
{
    return 100 * curve_overhead(d->curve, time);
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

static struct axis make_axis(double low, double high, double least_span)
{
    if (high - low < least_span)
        high = low + least_span;
    return (struct axis){low, high, round_up((high - low) / TICKS)};
}

/* Marks belong to the picture if it need not be much larger for them. */
static void make_axes(struct drawing *d)
{
    const struct curve *c = d->curve;
    double low = (double)c->points[c->count - 1].budget, high = (double)c->points[0].budget;
    double least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->points[i].fits) {
            double percent = percent_of(d, c->points[i].time);
            most = fmax(most, percent);
            least = fmin(least, fmin(percent, percent_of(d, c->points[i].lower_bound)));
        }
    if (most < least)
        least = most = 0;
    double highest = least + 1.5 * (most - least), widest = low + 1.1 * (high - low);
    for (uint32_t i = 0; i < c->picture->mark_count; i++) {
        const struct curve_mark *mark = &c->picture->marks[i];
        double percent = percent_of(d, mark->time), budget = (double)mark->budget;
        if (percent <= highest && low <= budget && budget <= widest) {
            most = fmax(most, percent);
            high = fmax(high, budget);
        }
    }
    double margin = 0.04 * (most - least);
    d->budget = make_axis(low, high, 8);
    d->percent = make_axis(least - margin, most + margin, 0.1);
}

static void reserve(struct drawing *d, struct box box)
{
    REMAT_PUSH(d->text->arena, &d->taken, box);
}

static bool is_free(const struct drawing *d, struct box box)
{
    if (box.left < LEFT || box.right > WIDTH - 4 || box.top < TOP || box.bottom > HEIGHT - BOTTOM)
        return false;
    for (size_t i = 0; i < d->taken.count; i++) {
        const struct box *other = &d->taken.items[i];
        if (box.left < other->right && other->left < box.right && box.top < other->bottom &&
            other->top < box.bottom)
            return false;
    }
    return true;
}

/* Files and policies name things as they like. */
static void append_name(struct remat_text *text, const char *name)
{
    char shown[REMAT_SHOWN_BYTES];
    while (*name) {
        char c = *name;
        remat_show(&name, shown);
        remat_text_append(text, "%s",
                          c == '<'   ? "&lt;"
                          : c == '&' ? "&amp;"
                          : c == '"' ? "&quot;"
                                     : shown);
    }
}

static void draw_text(struct drawing *d, const char *class, double x, double y, const char *what)
{
    remat_text_append(d->text, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    append_name(d->text, what);
    remat_text_append(d->text, "</text>\n");
}

/* All digits that a step has. */
static void append_size(struct remat_text *text, double bytes, double largest)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    for (; largest >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) {
        largest /= 1000;
        bytes /= 1000;
    }
    remat_text_append(text, "%.9g %s", bytes, units[unit]);
}

static void draw_ticks(struct drawing *d)
{
    struct remat_text *text = d->text;
    int right = WIDTH - RIGHT, bottom = HEIGHT - BOTTOM;
    for (double k = ceil(d->percent.low / d->percent.step); k * d->percent.step <= d->percent.high;
         k++) {
        double percent = k * d->percent.step, y = y_of(d, percent);
        remat_text_append(
            text,
            "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n"
            "<text class=\"y\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s%g %%</text>\n",
            LEFT, y, right, LEFT - 8, y + 4, percent > 0 ? "+" : "", percent + 0.0);
    }
    for (double k = ceil(d->budget.low / d->budget.step); k * d->budget.step <= d->budget.high;
         k++) {
        double budget = k * d->budget.step, x = x_of(d, budget);
        remat_text_append(text,
                          "<path class=\"axis\" d=\"M%.1f %dv5\"/>\n"
                          "<text class=\"x\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                          x, bottom, x, bottom + 19);
        append_size(text, budget, d->budget.high);
        remat_text_append(text, "</text>\n");
    }
    remat_text_append(text, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, bottom, right);
    remat_text_append(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">memory budget</text>\n",
                      (LEFT + right) / 2, HEIGHT - 14);
    remat_text_append(text,
                      "<text transform=\"translate(15 %d)rotate(-90)\" text-anchor=\"middle\">%s "
                      "over everything saved</text>\n",
                      (TOP + bottom) / 2, d->curve->picture->time);
}

/* " 10.0 20.0H30.0V10.0": from point to point, along the budgets first. Upwards that is a curve,
 * which holds its time up to the next budget; downwards a bound, which falls at once to the next.
 */
static void append_steps(const struct drawing *d, bool bound, bool downwards)
{
    const struct curve *c = d->curve;
    bool first = true;
    for (uint32_t k = 0; k < c->count; k++) {
        const struct curve_point *point = &c->points[downwards ? k : c->count - 1 - k];
        double percent = percent_of(d, bound ? point->lower_bound : point->time);
        if (!point->fits || isnan(percent))
            continue;
        remat_text_append(d->text, first ? "%.1f %.1f" : "H%.1fV%.1f",
                          x_of(d, (double)point->budget), y_of(d, percent));
        first = false;
    }
}

/* The largest with a bound; NULL: none has one. */
static const struct curve_point *find_bounded(const struct curve *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->points[i].fits && !isnan(c->points[i].lower_bound))
            return &c->points[i];
    return NULL;
}

static void draw_areas(struct drawing *d)
{
    const struct curve_point *largest = find_bounded(d->curve);
    if (!largest)
        return;
    remat_text_append(d->text, "<path class=\"never\" d=\"M");
    append_steps(d, true, true);
    remat_text_append(d->text, "V%dH%.1fz\"/>\n<path class=\"band\" d=\"M", HEIGHT - BOTTOM,
                      x_of(d, (double)largest->budget));
    append_steps(d, false, false);
    remat_text_append(d->text, "L");
    append_steps(d, true, true);
    remat_text_append(d->text, "z\"/>\n");
}

/* And takes the place of each step. */
static void draw_curve(struct drawing *d)
{
    const struct curve *c = d->curve;
    double right = WIDTH - RIGHT, above = HEIGHT - BOTTOM;
    remat_text_append(d->text, "<path class=\"curve\" d=\"M");
    append_steps(d, false, false);
    remat_text_append(d->text, "H%.0f\"/>\n", right); /* with more memory nothing changes */
    for (uint32_t i = 0; i < c->count; i++) {
        double x = x_of(d, (double)c->points[i].budget);
        if (!c->points[i].fits) {
            remat_text_append(d->text, "<path class=\"capacity\" d=\"M%.1f %dv-9\"/>\n", x,
                              HEIGHT - BOTTOM);
            continue;
        }
        double y = y_of(d, percent_of(d, c->points[i].time));
        remat_text_append(d->text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n",
                          x, y);
        reserve(d, (struct box){x - 4, y - 4, right + 4, y + 4});
        reserve(d, (struct box){right - 2, fmin(above, y) - 2, right + 2, fmax(above, y) + 2});
        right = x;
        above = y;
    }
}

static void draw_capacity(struct drawing *d)
{
    const struct curve_picture *c = d->curve->picture;
    double x = x_of(d, (double)c->capacity);
    if ((double)c->capacity <= d->budget.low || (double)c->capacity >= d->budget.high)
        return;
    const char *name =
        remat_arena_format(d->text->arena, "%s: %s", c->device, remat_short_text(c->capacity).text);
    double width = name ? LETTER * (double)strlen(name) + 6 : 0;
    bool leftwards = x + width > WIDTH - RIGHT;
    remat_text_append(d->text, "<path class=\"capacity\" d=\"M%.1f %dV%d\"/>\n", x, TOP - 8,
                      HEIGHT - BOTTOM);
    draw_text(d, "label full", leftwards ? x - width : x + 6, TOP + 2, name ? name : "");
    reserve(d, (struct box){x - 2, TOP, x + 2, HEIGHT - BOTTOM});
    reserve(d,
            (struct box){leftwards ? x - width : x, TOP - 8, leftwards ? x : x + width, TOP + 6});
}

/* --- marks --- */

static bool is_shown(const struct drawing *d, const struct curve_mark *mark)
{
    double budget = (double)mark->budget, percent = percent_of(d, mark->time);
    return d->budget.low <= budget && budget <= d->budget.high && d->percent.low <= percent &&
           percent <= d->percent.high;
}

static void draw_shape(struct drawing *d, const char *class, uint32_t kind, double x, double y)
{
    remat_text_append(d->text, "<path class=\"%s m%u\" d=\"M%.1f %.1f%s\"/>\n", class, kind, x, y,
                      shapes[kind]);
}

/* Beside the mark, else at the end of a short line from it. */
static void draw_label(struct drawing *d, const struct curve_mark *mark)
{
    double x = x_of(d, (double)mark->budget), y = y_of(d, percent_of(d, mark->time));
    double width = LETTER * (double)strlen(mark->name);
    const struct label_place {
        double left, base;
        bool apart;
    } places[] = {{x + 9, y + 4, false},          {x + 6, y - 7, false},
                  {x - width / 2, y - 9, false},  {x - width - 9, y + 4, false},
                  {x - width - 6, y - 7, false},  {x + 10, y - 22, true},
                  {x + 10, y - 38, true},         {x - width - 10, y - 22, true},
                  {x - width - 10, y - 38, true}, {x - width / 2, y - 54, true}};
    char class[16];
    snprintf(class, sizeof class, "label m%u", mark->kind);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct label_place *at = &places[i];
        const struct box box = {at->left, at->base - 9, at->left + width, at->base + 2};
        if (!is_free(d, box))
            continue;
        if (at->apart)
            remat_text_append(d->text, "<path class=\"axis\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x,
                              y - 6, fmin(fmax(x, at->left), at->left + width), at->base + 3);
        draw_text(d, class, at->left, at->base, mark->name);
        reserve(d, box);
        return;
    }
}

static void draw_marks(struct drawing *d)
{
    const struct curve_picture *c = d->curve->picture;
    for (uint32_t i = c->mark_count; i-- > 0;) { /* the first ones on top */
        double x = x_of(d, (double)c->marks[i].budget),
               y = y_of(d, percent_of(d, c->marks[i].time));
        if (!is_shown(d, &c->marks[i]))
            continue;
        draw_shape(d, "mark", c->marks[i].kind, x, y);
        reserve(d, (struct box){x - 6, y - 6, x + 6, y + 6});
    }
    for (uint32_t i = 0; i < c->mark_count; i++)
        if (is_shown(d, &c->marks[i]))
            draw_label(d, &c->marks[i]);
}

/* Two lines of title, one that says what is drawn how. */
static void draw_head(struct drawing *d)
{
    const struct curve_picture *picture = d->curve->picture;
    double x = 24, y = 70;
    uint32_t told = 0;
    draw_text(d, "title", x, 28, picture->title);
    if (picture->subtitle)
        draw_text(d, "subtitle", x, 48, picture->subtitle);
    remat_text_append(d->text, "<path class=\"curve\" d=\"M%.1f %.1fh18\"/>\n", x, y - 4);
    draw_text(d, "legend", x + 24, y, "remat");
    x += 76;
    if (find_bounded(d->curve)) {
        remat_text_append(d->text, "<path class=\"band\" d=\"M%.1f %.1fh14v9h-14z\"/>\n", x, y - 9);
        draw_text(d, "legend", x + 20, y, "not ruled out");
        x += 108;
    }
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        uint32_t kind = picture->marks[i].kind;
        if (!is_shown(d, &picture->marks[i]) || told & 1u << kind)
            continue;
        told |= 1u << kind;
        draw_shape(d, "key", kind, x, y - 4);
        draw_text(d, "legend", x + 10, y, picture->marks[i].systems);
        x += 26 + LETTER * (double)strlen(picture->marks[i].systems);
    }
}

/* Whether the area below the bound reaches up to y everywhere to the left of x. */
static bool is_below_bound(const struct drawing *d, double x, double y)
{
    const struct curve *c = d->curve;
    uint32_t i = c->count;
    while (i-- > 0)
        if (c->points[i].fits && x_of(d, (double)c->points[i].budget) >= x)
            return y_of(d, percent_of(d, c->points[i].lower_bound)) <= y; /* false of NAN */
    return false;
}

/* Where there is room for it. */
static void draw_never(struct drawing *d)
{
    static const char text[] = "no plan is this fast (proven)";
    double x = LEFT + 14, y = HEIGHT - BOTTOM - 16, right = x + 1.1 * LETTER * sizeof text;
    if (is_below_bound(d, right, y - 14))
        draw_text(d, "legend", x, y, text);
}

void curve_svg(struct remat_text *text, const struct curve *c)
{
    struct drawing d = {.text = text, .curve = c};
    make_axes(&d);
    remat_text_append(text,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                      "viewBox=\"0 0 %d %d\">\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" "
                      "rx=\"8\"/>\n",
                      WIDTH, HEIGHT, WIDTH, HEIGHT, style, WIDTH, HEIGHT);
    draw_head(&d);
    draw_areas(&d);
    draw_ticks(&d);
    draw_curve(&d);
    draw_capacity(&d);
    draw_marks(&d);
    draw_never(&d);
    remat_text_append(text, "</svg>\n");
}
