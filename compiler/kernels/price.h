/* SPDX-License-Identifier: Apache-2.0 */
/* The price of one kernel on a device. Pure; no other file prices kernels.
 *
 * Roofline: launch + max(arithmetic, moved bytes / bandwidth), where moved bytes are those of the
 * distinct operands (in long rows as often as they are read) and arithmetic has the rate of the
 * kernel's kind and size (Williams et al., "Roofline", CACM 2009; docs/cost_model.md). Prices of
 * fused kernels are sub-additive: a kernel costs at most as much as its parts. What the device's
 * profile, if any, has for a kernel takes precedence. */
#ifndef REMAT_PRICE_H
#define REMAT_PRICE_H

#include "device_description.h"
#include "kernel_list.h"

struct remat_price {
    uint64_t flops, moved_bytes, ns;
    uint64_t latency_ns; /* the part of ns that all but the first transfer of a group (schedule.h)
                            save; 0: in no group */
    uint32_t slowdown_permille; /* of computation while this transfer goes on; 0: none */
    double roofline_ns;         /* without a profile */
    uint8_t source;             /* enum remat_cost_source, of ns */
};

/* A group is full when its transfers take so many times the latency without it. */
#define REMAT_GROUP_LATENCIES 32
/* The least time of a kernel, in whatever group: a full one pays one latency. */
uint64_t remat_price_least_ns(const struct remat_price *price);

/* The device has all dtypes of the graph, and links for its mesh (remat_price_check). */
struct remat_price remat_price_kernel(const struct remat_graph *graph,
                                      const struct remat_kernel_info *kernel,
                                      const struct remat_device_description *device);

/* Bytes moved for one of the kernel's operands; several that begin at the same element of a value
 * count once, the largest of them. */
uint64_t remat_price_operand_bytes(const struct remat_graph *graph,
                                   const struct remat_kernel_info *kernel, uint32_t operand);

/* Bytes moved for all of its reads of a value, or for its writes of it; REMAT_NO_VALUE: for all. */
uint64_t remat_price_value_bytes(const struct remat_graph *graph,
                                 const struct remat_kernel_info *kernel, remat_value value);

/* Both sides of the roofline. */
struct remat_load {
    double compute_ns, memory_ns;
};
struct remat_load remat_price_load(const struct remat_graph *graph,
                                   const struct remat_kernel_info *kernel,
                                   const struct remat_device_description *device);

/* The same of a kernel that is fused into `beside`, which has other nodes over the same index
 * space: what that loads anyway, in the same view, is not loaded again. NULL: into none. A clone
 * stands for its original. */
struct remat_load remat_price_load_beside(const struct remat_graph *graph,
                                          const struct remat_kernel_info *kernel,
                                          const struct remat_kernel_info *beside,
                                          const struct remat_device_description *device);
/* There is such a load. */
bool remat_price_shares(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                        const struct remat_kernel_info *beside);

/* A variant of a fused kernel with the price `whole`: it stores less, inlines, or is a rerun.
 * Under a profile it takes the share of whole->ns that its roofline time is of the whole's, even
 * where the variant was measured, so that one ratio prices all variants and the bound knows it.
 * Without a profile, and of other kernels: remat_price_kernel. */
struct remat_price remat_price_variant(const struct remat_graph *graph,
                                       const struct remat_kernel_info *kernel,
                                       const struct remat_price *whole,
                                       const struct remat_device_description *device);

/* The same where it is fused into `beside`: there is no launch. If the two share no load, or
 * `beside` is NULL, it stays a kernel of its own: remat_price_variant. */
struct remat_price remat_price_variant_beside(const struct remat_graph *graph,
                                              const struct remat_kernel_info *kernel,
                                              const struct remat_kernel_info *beside,
                                              const struct remat_price *whole,
                                              const struct remat_device_description *device);

/* `device` without a profile, of such rates that no variant of the fused kernel costs less on
 * `device` than on this. Without a profile the device itself. */
struct remat_device_description
remat_price_variants_on(const struct remat_device_description *device,
                        const struct remat_price *whole);

/* Model flops of a step that saves everything (remat_op_product_flops), and their time at the
 * device's peak rates. */
struct remat_model_work {
    uint64_t flops;
    double ns;
};
struct remat_model_work remat_price_model_work(const struct remat_graph *graph,
                                               const struct remat_device_description *device);

/* REMAT_ERROR_USAGE: the graph has a value of a dtype that the device lacks; the message names it.
 */
remat_status remat_price_check(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_device_description *device);
/* Memory that the engine of a rank takes on the device, on the machine with the most ranks. */
uint64_t remat_price_engine_bytes(const struct remat_mesh *mesh,
                                  const struct remat_device_description *device);

/* REMAT_ERROR_USAGE: there are several ranks, and the device describes no links. */
remat_status remat_price_check_mesh(remat_context *ctx, const struct remat_mesh *mesh,
                                    const struct remat_device_description *device);

/* The limits of amounts.h. REMAT_ERROR_INVALID: the values of the graph have too many bytes
 * together, or a kernel too many flops; the message names the largest. */
remat_status remat_price_check_values(remat_context *ctx, const struct remat_graph *graph);
/* REMAT_ERROR_USAGE: kernels with these prices take too long together; it names the longest. */
remat_status remat_price_check_list(remat_context *ctx, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels,
                                    const struct remat_price *prices,
                                    const struct remat_device_description *device);

#endif
