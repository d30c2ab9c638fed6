/* From a graph with its kernels to the border problem: the one place where solvers meet the graph.
 *
 * Items are the forward values that the plan without recomputation writes to memory. Two problems
 * over them differ in their costs. `least`: no plan that rewrite, fuse and schedule make of any
 * decision over the items costs less than this says, fusion included; bounds come from it.
 * `likely`: what the plan probably costs; candidates come from it, and are priced exactly. */
#ifndef REMAT_EXTRACT_H
#define REMAT_EXTRACT_H

#include "border.h"
#include "decision.h"
#include "facts.h"
#include "fuse.h"
#include "ops.h"
#include "price.h"

struct remat_border_graph {
    uint32_t item_count, region_count;
    struct remat_facts facts; /* of the graph */
    remat_value *item_value;  /* by item: the storage root */
    uint32_t *item_of;        /* by value: the item, REMAT_NONE where a root is none */
    uint32_t *item_region;    /* by item: number of its layer in order of the forward pass,
                                 REMAT_NONE outside layers */
    uint32_t *region_of_node; /* as item_region; REMAT_NONE behind the loss */
    uint8_t *item_crossing;   /* by item: enum remat_crossing (layers.h) */
    uint32_t *made_of;        /* by value: where it stays in its kernel, the only item that is made
                                 of it there, if that is no larger; REMAT_NONE */
    bool *item_replaced;  /* by item: `least` rests on it being saved in place of such a value, of
                             which it is computed again all the same */
    bool *item_fused;     /* by item: where not kept, kernel programs make it for themselves */
    uint32_t *item_named; /* by item: the first named kernel of the backward pass that reads it,
                             as its node; REMAT_NONE: there is none */
    struct remat_border least, likely;
    uint64_t least_ns; /* of the plan without recomputation, as `least` counts */
};

/* `kernels` and `prices` are those of `graph`, in which nothing is recomputed. Where the device has
 * a profile, `least` counts named kernels, and programs that are the same in every plan, at their
 * prices and the other programs at remat_price_floor. `pinned`: the
 * decision of the pins alone; a reason marks what they decide. */
remat_status
remat_extract_border(remat_context *ctx, struct remat_arena *arena, const struct remat_graph *graph,
                     const struct remat_kernel_list *kernels, const struct remat_price *prices,
                     const struct remat_device_description *device,
                     const struct remat_decision *pinned, struct remat_border_graph *out);

static inline const struct remat_border_task *
remat_extract_task(const struct remat_border_graph *border, uint32_t item)
{
    return &border->least.tasks[border->least.items[item].task];
}

/* `least` as it looks from the first run of a kernel: only what is read after it is wanted, what it
 * reads or writes itself is live in any case and counts in other_bytes. */
struct remat_border_moment {
    uint32_t kernel;
    struct remat_border border;
    uint64_t other_bytes; /* beside statics and the kept items, live during the run in every plan */
    uint64_t wanted_bytes;
    int64_t before_ps; /* least cost of what may have been computed again before; at most 0 */
};
remat_status remat_extract_moment(struct remat_arena *arena, const struct remat_graph *graph,
                                  const struct remat_kernel_list *kernels,
                                  const struct remat_border_graph *border, uint32_t kernel,
                                  struct remat_border_moment *out);

/* Kernels whose moments are worth a cut: all of the loss, and the named ones of the head's and the
 * last layer's backward pass. */
remat_status remat_extract_moments(struct remat_arena *arena, const struct remat_graph *graph,
                                   const struct remat_kernel_list *kernels,
                                   const struct remat_border_graph *border, uint32_t *out_count,
                                   struct remat_border_moment **out);

/* The decision that keeps the items of `keep` and no others, on top of `pinned`. */
remat_status remat_border_decide(struct remat_arena *arena, const struct remat_graph *graph,
                                 const struct remat_border_graph *border, const bool *keep,
                                 const struct remat_decision *pinned, struct remat_decision *out);

#endif
