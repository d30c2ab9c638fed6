/* SPDX-License-Identifier: Apache-2.0 */
/* Products have one rate for each dtype. Attention takes
 *
 *     flops (1 + half_keys / keys) (1 + half_width / depth) / (efficiency rate of products)
 *
 * so each half constant follows from two probes that differ in keys or depth alone. The rates of
 * memory and of pointwise arithmetic are those with the least sum of |price - time| over the fused
 * kernels, with price = max(flops / pointwise, bytes / memory). As a function of 1 / rate that sum
 * is linear between the points at which some price is the time or both sides of a price are equal;
 * those where a kernel's own rate is taken for either are tried. */
#include "device_rates.h"

#include <math.h>

struct rate_sums {
    double flops, ns;
};

static struct rate_sums sum(const struct timings *timings, enum timed_kind kind)
{
    struct rate_sums sums = {0, 0};
    for (uint32_t i = 0; i < timings->count; i++)
        if (timings->items[i].kind == kind) {
            sums.flops += timings->items[i].flops;
            sums.ns += timings->items[i].ns;
        }
    return sums;
}

static double rate(const struct timings *timings, enum timed_kind kind)
{
    struct rate_sums sums = sum(timings, kind);
    return sums.flops / sums.ns;
}

static const struct timed *first(const struct timings *timings, enum timed_kind kind)
{
    const struct timed *t = timings->items;
    while (t->kind != kind)
        t++;
    return t;
}

/* h, if the time of a flop is proportional to 1 + h / x and is `ratio` times as long with `x` as
 * with `longer`; not below 0. */
static double half_of(double ratio, double x, double longer)
{
    double divisor = 1 / x - ratio / longer;
    return divisor > 0 ? fmax(0, (ratio - 1) / divisor) : longer;
}

static void fit_attention(const struct timings timings[PROBE_MEASURED], struct rates *out)
{
    double slower[2]; /* a flop with few keys */
    struct rate_sums usual = {0, 0}, narrow = {0, 0};
    for (int d = 0; d < 2; d++) {
        enum timed_kind kind = (enum timed_kind)d;
        struct rate_sums u = sum(&timings[PROBE_FP32], kind), n = sum(&timings[PROBE_NARROW], kind);
        usual = (struct rate_sums){usual.flops + u.flops, usual.ns + u.ns};
        narrow = (struct rate_sums){narrow.flops + n.flops, narrow.ns + n.ns};
        slower[d] = rate(&timings[PROBE_FP32], kind) / rate(&timings[PROBE_SHORT], kind);
    }
    double depth = first(&timings[PROBE_FP32], TIMED_ATTENTION)->depth;
    out->half_width = half_of(usual.flops / usual.ns * narrow.ns / narrow.flops,
                              first(&timings[PROBE_NARROW], TIMED_ATTENTION)->depth, depth);
    for (int d = 0; d < 2; d++) {
        enum timed_kind kind = (enum timed_kind)d;
        double keys = first(&timings[PROBE_FP32], kind)->keys;
        double half_keys = half_of(slower[d], first(&timings[PROBE_SHORT], kind)->keys, keys);
        double share = rate(&timings[PROBE_FP32], kind) / out->matmul_fp32 *
                       (1 + out->half_width / depth); /* with many keys, at least */
        out->attention[d].half_keys = fmax(0, fmin(half_keys, keys * (1 / share - 1)));
        out->attention[d].efficiency = fmin(1, share * (1 + out->attention[d].half_keys / keys));
    }
}

static double error_ns(const struct timings *timings, double memory, double pointwise)
{
    double sum = 0;
    for (uint32_t i = 0; i < timings->count; i++) {
        const struct timed *t = &timings->items[i];
        if (t->kind == TIMED_FUSED)
            sum += fabs(fmax(t->flops / pointwise, t->bytes / memory) - t->ns);
    }
    return sum;
}

static void fit_fused(const struct timings *timings, struct rates *out)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < timings->count; i++)
        for (uint32_t j = 0; j < timings->count; j++) {
            const struct timed *a = &timings->items[i], *b = &timings->items[j];
            if (a->kind != TIMED_FUSED || b->kind != TIMED_FUSED || b->flops == 0)
                continue;
            double memory = a->bytes / a->ns, pointwise = b->flops / b->ns;
            double error = error_ns(timings, memory, pointwise);
            if (error >= least)
                continue;
            least = error;
            out->memory = memory;
            out->pointwise = pointwise;
        }
}

void rates_fit(const struct timings timings[PROBE_MEASURED], struct rates *out)
{
    *out = (struct rates){.matmul_fp32 = rate(&timings[PROBE_FP32], TIMED_MATMUL),
                          .matmul_bf16 = rate(&timings[PROBE_BF16], TIMED_MATMUL)};
    fit_attention(timings, out);
    fit_fused(&timings[PROBE_FP32], out);
}
