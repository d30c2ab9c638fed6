/* SPDX-License-Identifier: Apache-2.0 */
/* A product is cut into tiles that the processors take in waves; the last wave is rarely full and
 * tiles reach over the edges. Libraries answer with smaller tiles, which load more per product, and
 * with tiles split along k, whose partial sums go through memory; the best of these is taken
 * (docs/cost_model.md). */
#include "roofline.h"

#include <math.h>

#define TILE_EDGE       32.0  /* rows and columns that loading a tile is worth */
#define TILE_SIDE_MIN   64    /* smaller tiles are not tried, unless the device's is */
#define TILE_HALVINGS   2     /* of each side */
#define SPLIT_DEPTH_MIN 512.0 /* of a part of a tile that is split along k */
#define SPLITS_MAX      16.0

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
    for (double splits = 2; splits <= SPLITS_MAX && p->k / splits >= SPLIT_DEPTH_MIN; splits *= 2)
        best = fmin(best, tiled_ns(p, tile, splits, device));
    return best;
}

static bool is_tried(uint32_t side, uint32_t halvings)
{
    return halvings == 0 || side >> halvings >= TILE_SIDE_MIN;
}

double remat_roofline_product_ns(const struct remat_product *product,
                                 const struct remat_device_description *device)
{
    double best = INFINITY;
    for (uint32_t r = 0; r <= TILE_HALVINGS && is_tried(device->tile_rows, r); r++)
        for (uint32_t c = 0; c <= TILE_HALVINGS && is_tried(device->tile_columns, c); c++) {
            struct tile tile = {device->tile_rows >> r, device->tile_columns >> c};
            best = fmin(best, best_split_ns(product, tile, device));
        }
    return best;
}

double remat_roofline_attention_ns(double flops, double keys, double depth, remat_dtype dtype,
                                   const struct remat_attention_rate *rate,
                                   const struct remat_device_description *device)
{
    double share = rate->efficiency * keys / (keys + rate->half_keys) * depth /
                   (depth + device->attention_half_width);
    return flops / (device->matmul_flops_per_ns[dtype] * share);
}
