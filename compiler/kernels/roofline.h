/* SPDX-License-Identifier: Apache-2.0 */
/* roofline: how long arithmetic takes on a device, without memory traffic and launch; for price.c.
 * docs/cost_model.md has the formulas and where their constants come from. */
#ifndef REMAT_ROOFLINE_H
#define REMAT_ROOFLINE_H

#include "device_description.h"

/* batch products c [m, n] = a [m, k] b [k, n], operands of one dtype that the device has. */
struct remat_product {
    double batch, m, n, k;
    remat_dtype dtype;
};
double remat_roofline_product_ns(const struct remat_product *product,
                                 const struct remat_device_description *device);

/* `flops` of attention by queries that see `keys` keys on average, heads of `depth`. */
double remat_roofline_attention_ns(double flops, double keys, double depth, remat_dtype dtype,
                                   const struct remat_attention_rate *rate,
                                   const struct remat_device_description *device);

#endif
