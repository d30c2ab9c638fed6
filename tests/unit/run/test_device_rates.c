/* SPDX-License-Identifier: Apache-2.0 */
/* Times that are made from rates, by the formulas of docs/cost_model.md written out again, have
 * these rates. */
#include "check.h"
#include "device_rates.h"

#include <math.h>
#include <stdio.h>

struct truth {
    double memory, pointwise, fp32, bf16, efficiency[2], half_keys[2], half_width;
};

enum { ITEMS = 16 };

static void add(struct timings *to, enum timed_kind kind, double flops, double bytes, double ns)
{
    to->items[to->count++] = (struct timed){.kind = kind, .flops = flops, .bytes = bytes, .ns = ns};
}

static void add_attention(struct timings *to, const struct truth *t, double rate, double keys,
                          double depth)
{
    for (int d = 0; d < 2; d++) {
        double flops = 1e6 * (d + 1) * keys * depth;
        double share =
            t->efficiency[d] * keys / (keys + t->half_keys[d]) * depth / (depth + t->half_width);
        add(to, (enum timed_kind)d, flops, 1, flops / (rate * share));
        to->items[to->count - 1].keys = keys;
        to->items[to->count - 1].depth = depth;
    }
}

/* Kernels on both sides of the ridge, one of which has no arithmetic and one took 3 times as long
 * as it should. */
static void add_fused(struct timings *to, const struct truth *t)
{
    static const double sizes[][3] = {{1e6, 1e6, 1}, {4e6, 1e5, 1}, {1e7, 4e6, 1}, {1e5, 2e6, 1},
                                      {1e6, 3e7, 1}, {0, 4e6, 1},   {9e4, 8e4, 3}, {6e6, 7e5, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(to, TIMED_FUSED, sizes[i][0], sizes[i][1],
            sizes[i][2] * fmax(sizes[i][0] / t->pointwise, sizes[i][1] / t->memory));
}

static struct rates fit(const struct truth *t)
{
    static const double keys[] = {256.5, 256.5, 256.5, 64.5}, depths[] = {64, 128, 16, 64};
    struct timed items[PROBE_MEASURED][ITEMS];
    struct timings timings[PROBE_MEASURED];
    struct rates rates;
    for (int p = 0; p < PROBE_MEASURED; p++) {
        double rate = p == PROBE_BF16 ? t->bf16 : t->fp32;
        timings[p] = (struct timings){items[p], 0};
        add(&timings[p], TIMED_MATMUL, 1e9, 1, 1e9 / rate);
        add(&timings[p], TIMED_MATMUL, 3e9, 1, 3e9 / rate);
        add_fused(&timings[p], t);
        add_attention(&timings[p], t, rate, keys[p], depths[p]);
    }
    rates_fit(timings, &rates);
    return rates;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static void check_fit(const struct truth *t)
{
    struct rates found = fit(t);
    CHECK(near(found.memory, t->memory) && near(found.pointwise, t->pointwise), "fused: %g, %g",
          found.memory, found.pointwise);
    CHECK(near(found.matmul_fp32, t->fp32) && near(found.matmul_bf16, t->bf16), "products: %g, %g",
          found.matmul_fp32, found.matmul_bf16);
    CHECK(near(found.half_width, t->half_width), "half width %g", found.half_width);
    for (int d = 0; d < 2; d++)
        CHECK(near(found.attention[d].efficiency, t->efficiency[d]) &&
                  near(found.attention[d].half_keys, t->half_keys[d]),
              "attention %d: %g, %g", d, found.attention[d].efficiency,
              found.attention[d].half_keys);
}

/* Of attention so steep that its rate would be above that of products with many keys, those of
 * PROBE_FP32 still have their time; and where fewer keys are faster, they make no difference. */
static void check_clamped(void)
{
    const double keys = 256.5, depth = 64;
    struct truth t = {9, 30, 100, 100, {1.4, 0.5}, {300, -20}, 0};
    struct rates found = fit(&t);
    for (int d = 0; d < 2; d++) {
        const struct attention_rate *a = &found.attention[d];
        double expected = t.efficiency[d] * keys / (keys + t.half_keys[d]);
        CHECK(a->efficiency <= 1 && a->half_keys >= 0, "%g, %g", a->efficiency, a->half_keys);
        CHECK(
            near(a->efficiency * keys / (keys + a->half_keys) * depth / (depth + found.half_width),
                 expected),
            "attention %d: %g, %g", d, a->efficiency, a->half_keys);
    }
}

int main(void)
{
    static const struct truth truths[] = {
        {14, 26, 120, 110, {0.7, 0.8}, {70, 90}, 50},
        {50, 105, 202, 202, {0.62, 0.73}, {0, 0}, 0},
        {2, 60, 5, 90, {1, 0.01}, {0, 1000}, 3},
    };
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++)
        check_fit(&truths[i]);
    check_clamped();
    return check_exit();
}
