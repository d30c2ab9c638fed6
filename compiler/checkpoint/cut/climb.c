/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and price of the highest bound, by Kelley's cutting planes. The bound is concave in both:
 * the minimum, over all choices, of a function that is linear in them. Each choice found gives one
 * of these functions, and the minimum over those found so far is maximized by a linear program. A
 * cut at that point gives the next choice. A point at which the program stops early is valid, too,
 * so its rounding does no harm. */
#include "border.h"

#include <assert.h>
#include <math.h>

enum {
    CUTS_MAX = 24,     /* for one bound */
    PLANES_MAX = 96,   /* the last ones found */
    PIVOTS_MAX = 4096, /* of a program */
    WEIGHTS = 1 << 20, /* a weight is a whole number of such parts, so that sums are exact */
    HALF_WEIGHTS = REMAT_STREAMS_MAX,
    /* Variables: the weights of each half, and the smaller of the two. */
    BOUND = 0,
    PRICE,
    FIRST,
    SECOND = FIRST + HALF_WEIGHTS,
    EITHER = SECOND + HALF_WEIGHTS,
    VARIABLES = EITHER + HALF_WEIGHTS,
    ROWS_MAX = PLANES_MAX + 2 + 2 * HALF_WEIGHTS,
};

/* Of the work of choices that is close to the bound, so much is lost at most. */
#define CLOSE 1e-5

/* Maximizes variable 0 subject to rows: the sum of at[variable] times variable is at most `limit`,
 * which is not below zero. No variable is below zero. */
struct linear {
    uint32_t row_count;
    struct row {
        double at[VARIABLES], limit;
    } rows[ROWS_MAX];
};

static struct row *add_row(struct linear *p, double limit)
{
    struct row *row = &p->rows[p->row_count++];
    *row = (struct row){.limit = limit};
    return row;
}

/* --- the simplex method on a dictionary: each row expresses a basic variable by the others --- */

struct dictionary {
    struct linear *p;
    uint32_t basic[ROWS_MAX], free[VARIABLES]; /* variables; from VARIABLES on: slacks of rows */
    double gain[VARIABLES], value;             /* of the objective, by place in `free` */
};

static void pivot(struct dictionary *d, uint32_t r, uint32_t column)
{
    struct row *row = &d->p->rows[r];
    double by = 1 / row->at[column];
    uint32_t entering = d->free[column];
    d->free[column] = d->basic[r];
    d->basic[r] = entering;
    for (uint32_t c = 0; c < VARIABLES; c++)
        row->at[c] *= c == column ? 0 : by;
    row->at[column] = by;
    row->limit *= by;
    for (uint32_t i = 0; i < d->p->row_count; i++) {
        struct row *other = &d->p->rows[i];
        double times = other->at[column];
        if (i == r || times == 0)
            continue;
        other->at[column] = 0;
        for (uint32_t c = 0; c < VARIABLES; c++)
            other->at[c] -= times * row->at[c];
        other->limit = fmax(0, other->limit - times * row->limit);
    }
    double times = d->gain[column];
    d->gain[column] = 0;
    for (uint32_t c = 0; c < VARIABLES; c++)
        d->gain[c] -= times * row->at[c];
    d->value += times * row->limit;
}

/* Bland's rule, which does not cycle: of several the variable with the lowest number. */
static uint32_t find_entering(const struct dictionary *d)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t c = 0; c < VARIABLES; c++)
        if (d->gain[c] > 1e-11 && (best == UINT32_MAX || d->free[c] < d->free[best]))
            best = c;
    return best;
}

static uint32_t find_leaving(const struct dictionary *d, uint32_t column)
{
    uint32_t best = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t i = 0; i < d->p->row_count; i++) {
        const struct row *row = &d->p->rows[i];
        if (row->at[column] <= 1e-11)
            continue;
        double most = row->limit / row->at[column];
        if (most < least || (most == least && d->basic[i] < d->basic[best])) {
            least = most;
            best = i;
        }
    }
    return best;
}

/* The program is changed. */
static void solve(struct linear *p, double *x)
{
    struct dictionary d = {.p = p, .gain = {[BOUND] = 1}};
    for (uint32_t c = 0; c < VARIABLES; c++)
        d.free[c] = c;
    for (uint32_t i = 0; i < p->row_count; i++)
        d.basic[i] = VARIABLES + i;
    for (uint32_t k = 0; k < PIVOTS_MAX; k++) {
        uint32_t column = find_entering(&d), row;
        if (column == UINT32_MAX || (row = find_leaving(&d, column)) == UINT32_MAX)
            break;
        pivot(&d, row, column);
    }
    memset(x, 0, VARIABLES * sizeof *x);
    for (uint32_t i = 0; i < p->row_count; i++)
        if (d.basic[i] < VARIABLES)
            x[d.basic[i]] = p->rows[i].limit;
}

/* --- the program of a bound --- */

struct climb {
    struct remat_border_network *network;
    uint64_t bytes;
    double price;               /* NAN: it is looked for */
    double unit_ps, unit_bytes; /* so that numbers are near 1 */
    struct linear linear;
};

static void add_plane(struct climb *c, const struct remat_border_choice *choice)
{
    double kept = (double)choice->bytes - (double)c->bytes;
    struct row *row = add_row(&c->linear, isnan(c->price) ? 0 : c->price * kept / c->unit_ps);
    row->at[BOUND] = 1;
    row->at[PRICE] = isnan(c->price) ? -kept / c->unit_bytes : 0;
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
        for (uint32_t s = 0; s < REMAT_STREAMS_MAX && choice->work_ps[kind]; s++) {
            uint32_t weight = FIRST + (uint32_t)remat_work_half(kind) * HALF_WEIGHTS + s;
            if (remat_work_streams(kind) >> s & 1)
                row->at[weight] -= (double)choice->work_ps[kind] / c->unit_ps;
        }
}

/* The weights of a half add up to 1; the smaller of the two is none above either. */
static void add_rules(struct climb *c)
{
    struct row *first = add_row(&c->linear, 1), *second = add_row(&c->linear, 1);
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
        first->at[FIRST + s] = second->at[SECOND + s] = 1;
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
        for (uint32_t half = 0; half < 2; half++) {
            struct row *row = add_row(&c->linear, 0);
            row->at[EITHER + s] = 1;
            row->at[FIRST + half * HALF_WEIGHTS + s] = -1;
        }
}

/* Multiples of 1 / WEIGHTS that add up to 1. */
static void round_weights(const double *x, double *out)
{
    double left = 1;
    uint32_t largest = 0;
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++) {
        out[s] = fmax(0, fmin(floor(x[s] * WEIGHTS) / WEIGHTS, left));
        left -= out[s];
        largest = out[s] > out[largest] ? s : largest;
    }
    out[largest] += left;
}

/* The point that is the highest as far as known, and the highest that the bound can be. */
static double find_point(struct climb *c, struct remat_weights *weights, double *price)
{
    struct remat_border_cuts cuts = remat_border_cuts(c->network);
    double x[VARIABLES];
    size_t begin = cuts.count > PLANES_MAX ? cuts.count - PLANES_MAX : 0;
    c->linear.row_count = 0;
    add_rules(c);
    for (size_t i = begin; i < cuts.count; i++)
        add_plane(c, &cuts.items[i].choice);
    solve(&c->linear, x);
    round_weights(x + FIRST, weights->of[0]);
    round_weights(x + SECOND, weights->of[1]);
    *price = isnan(c->price) ? x[PRICE] * c->unit_ps / c->unit_bytes : c->price;
    return x[BOUND] * c->unit_ps;
}

/* The highest of those found for the price asked for. */
static struct remat_border_cut best_of(const struct climb *c)
{
    struct remat_border_cuts cuts = remat_border_cuts(c->network);
    const struct remat_border_cut *best = NULL;
    for (size_t i = 0; i < cuts.count; i++)
        if ((isnan(c->price) || cuts.items[i].price == c->price) &&
            (!best ||
             remat_border_proven(&cuts.items[i], c->bytes) > remat_border_proven(best, c->bytes)))
            best = &cuts.items[i];
    return *best;
}

struct remat_border_cut remat_border_climb(struct remat_border_network *n, uint64_t bytes,
                                           double price, double enough_ps)
{
    struct climb c = {.network = n, .bytes = bytes, .price = price, .unit_ps = 1, .unit_bytes = 1};
    struct remat_weights weights;
    double at;
    assert(isnan(price) || bytes == 0);
    if (isnan(price))
        remat_border_bound(n, bytes, enough_ps);
    else
        remat_border_cut(n, price);
    struct remat_border_cuts cuts = remat_border_cuts(n);
    for (size_t i = 0; i < cuts.count; i++) {
        for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
            c.unit_ps = fmax(c.unit_ps, fabs((double)cuts.items[i].choice.work_ps[kind]));
        c.unit_bytes = fmax(c.unit_bytes, fabs((double)cuts.items[i].choice.bytes - (double)bytes));
    }
    for (uint32_t k = 0; k < CUTS_MAX; k++) {
        struct remat_border_cut best = best_of(&c);
        double most_ps = find_point(&c, &weights, &at);
        if (most_ps <= enough_ps ||
            most_ps <= remat_border_proven(&best, bytes) + CLOSE * c.unit_ps)
            break;
        size_t known = remat_border_cuts(n).count;
        remat_border_weigh(n, &weights);
        remat_border_cut(n, at);
        if (remat_border_cuts(n).count == known) /* all that is left is rounding */
            break;
    }
    remat_border_weigh(n, NULL);
    return best_of(&c);
}
