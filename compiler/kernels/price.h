/* price: what one kernel costs on a device. Pure; the only place that says so.
 *
 * Roofline: launch + max(flops / rate, moved bytes / bandwidth), where moved bytes are those of the
 * distinct operands (so the cost of fused kernels is sub-additive) and the rate is that of the
 * kernel's kind (Williams et al., "Roofline", CACM 2009). */
#ifndef REMAT_PRICE_H
#define REMAT_PRICE_H

#include "device_description.h"
#include "fuse.h"

struct remat_price {
    uint64_t flops, moved_bytes, ns;
};
struct remat_price remat_price_kernel(const struct remat_graph *graph,
                                      const struct remat_fused_kernel *kernel,
                                      const struct remat_device_description *device);

#endif
