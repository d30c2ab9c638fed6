/* SPDX-License-Identifier: Apache-2.0 */
/* Times of matrix products and of attention from the device's rates (docs/cost_model.md). */
#include "rates.h"

#include <assert.h>
#include <math.h>

#define VECTOR_BYTES    16    /* that a product reads at once from an aligned row */
#define WORD_SHARE      0.30  /* of the rate, with rows aligned to 4 or 8 bytes */
#define HALF_WORD_SHARE 0.12  /* to 2 */
#define TILE_EDGE       32.0  /* rows and columns that loading a tile is worth */
#define TILE_SIDE_MIN   64    /* smaller tiles are not tried, unless the device's is */
#define TILE_HALVINGS   2     /* of each side */
#define SPLIT_DEPTH_MIN 512.0 /* of a part of a tile that is split along k */
#define SPLITS_MAX      16.0

/* A product is cut into tiles that the processors take in waves; the last wave is rarely full and
 * tiles reach over the edges. Libraries answer with smaller tiles, which load more per product, and
 * with tiles split along k, whose partial sums go through memory; the best of these is taken
 * (docs/cost_model.md). */
struct tile {
    double rows, columns;
};

static double tile_work(struct tile tile)
{
    return (tile.rows + TILE_EDGE) * (tile.columns + TILE_EDGE);
}

static double tiled_ns(const struct remat_product *p, struct tile tile, double splits,
                       const struct remat_device_description *device)
{
    struct tile full = {device->tile_rows, device->tile_columns};
    double rate = device->matmul_flops_per_ns[p->dtype] * device->matmul_efficiency;
    double tiles = p->batch * ceil(p->m / tile.rows) * ceil(p->n / tile.columns) * splits;
    double waves = ceil(tiles / device->processors);
    double full_ns = 2 * full.rows * full.columns * ceil(p->k / splits) * device->processors / rate;
    double sums_bytes = splits > 1 ? 2 * sizeof(float) * splits * p->batch * p->m * p->n : 0;
    return waves * full_ns * tile_work(tile) / tile_work(full) +
           sums_bytes / device->memory_bytes_per_ns;
}

static double best_split_ns(const struct remat_product *p, struct tile tile,
                            const struct remat_device_description *device)
{
    double best = tiled_ns(p, tile, 1, device);
    double depth_min = device->monotone ? 0 : SPLIT_DEPTH_MIN;
    for (double splits = 2; splits <= SPLITS_MAX && p->k / splits >= depth_min; splits *= 2)
        best = fmin(best, tiled_ns(p, tile, splits, device));
    return best;
}

static bool is_tried(uint32_t side, uint32_t halvings)
{
    return halvings == 0 || side >> halvings >= TILE_SIDE_MIN;
}

/* The share of the rate at the product's alignment: kernels of tensor cores load 16 bytes at once
 * (docs/cost_model.md). */
static double aligned_share(const struct remat_product *p,
                            const struct remat_device_description *device)
{
    uint32_t bytes = remat_dtype_bytes(p->dtype), aligned = VECTOR_BYTES;
    if (!remat_device_is_gpu(device) || bytes > 2)
        return 1;
    while (p->lengths * bytes % aligned)
        aligned /= 2;
    return aligned == VECTOR_BYTES ? 1 : aligned > 2 ? WORD_SHARE : HALF_WORD_SHARE;
}

double remat_price_product_ns(const struct remat_product *product,
                              const struct remat_device_description *device)
{
    assert(product->batch >= 1 && product->m >= 1 && product->n >= 1 && product->k >= 1);
    double best = INFINITY;
    for (uint32_t r = 0; r <= TILE_HALVINGS && is_tried(device->tile_rows, r); r++)
        for (uint32_t s = 0; s <= TILE_HALVINGS && is_tried(device->tile_columns, s); s++) {
            struct tile tile = {device->tile_rows >> r, device->tile_columns >> s};
            best = fmin(best, best_split_ns(product, tile, device));
        }
    return best / aligned_share(product, device);
}

/* Products, or what is done with each score: softmax and, with dropout, random bits. */
double remat_price_scores_ns(const struct remat_scores *s,
                             const struct remat_device_description *device)
{
    assert(s->depth > 0 && s->seen > 0);
    static const double score_flops[2][2] = {{14, 42}, {62, 110}}; /* [backward][dropout] */
    const struct remat_attention_rate *rate =
        s->backward ? &device->attention_backward : &device->attention_forward;
    double share = rate->efficiency * s->seen / (s->seen + rate->half_keys) * s->depth /
                   (s->depth + device->attention_half_width);
    return fmax(s->flops / (device->matmul_flops_per_ns[s->dtype] * share),
                s->count * score_flops[s->backward][s->dropout] / device->pointwise_flops_per_ns);
}
