/* SPDX-License-Identifier: Apache-2.0 */
/* Times of matrix products and attention at a device's rates, without launches. */
#ifndef REMAT_RATES_H
#define REMAT_RATES_H

#include "device_description.h"

/* c [m, n] = a [m, k] b [k, n], `batch` times. */
struct remat_product {
    double batch, m, n, k;
    remat_dtype dtype;
    uint64_t lengths; /* n, k and strides of rows by bit or: their lowest bit is the alignment */
};
double remat_price_product_ns(const struct remat_product *product,
                              const struct remat_device_description *device);

/* Attention of so many scores; each query sees `seen` keys. */
struct remat_scores {
    double flops, count, seen, depth;
    remat_dtype dtype;
    bool backward, dropout;
};
double remat_price_scores_ns(const struct remat_scores *scores,
                             const struct remat_device_description *device);

#endif
