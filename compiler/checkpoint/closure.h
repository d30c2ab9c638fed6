/* SPDX-License-Identifier: Apache-2.0 */
/* The closure problem of a graph and its kernels: the only place that knows both the graph and the
 * solvers. Items are the forward values that the plan without recomputation writes to memory, and
 * values that pins save. No decision costs less than the problem charges for it, so bounds come
 * from it; its hull gives the decisions to try. */
#ifndef REMAT_CLOSURE_H
#define REMAT_CLOSURE_H

#include "border.h"
#include "live.h"
#include "places.h"
#include "settle.h"

/* The layers that read a value in the forward pass and the loss. */
enum remat_reach {
    REMAT_REACH_LOCAL,   /* only the layer that computes it, or nothing in any layer */
    REMAT_REACH_LAYERS,  /* other layers than the one that computes it */
    REMAT_REACH_OUTSIDE, /* computed in a layer and read outside all, or the reverse */
};

#define REMAT_NO_ITEM  ((remat_item){REMAT_NONE})
#define REMAT_NO_LAYER ((remat_layer){REMAT_NONE})

struct remat_model {
    uint32_t item_count, layer_count;
    const struct remat_settled *settled;
    remat_value *item_value;    /* by item: the storage root */
    remat_item *item_of;        /* by value: none where a root is no item */
    remat_layer *item_layer;    /* by item: its layer, none outside layers */
    remat_layer *layer_of_node; /* as item_layer; none after the loss */
    uint8_t *item_reach;        /* by item: enum remat_reach */
    struct remat_border border;
    struct remat_decision rest; /* actions that no choice changes, and the reasons of all */
    uint64_t least_ns; /* of the kernels that no decision changes; 0 where the problem has them,
                          too: its work is then of several streams */
    struct remat_places places;
};

/* `prices` are those of the kernels that `settled` is about. Where the device has a profile,
 * kernels that decisions change are priced on remat_price_variants_on. Pinned values are free. */
remat_status remat_model_create(struct remat_arena *arena, const struct remat_settled *settled,
                                const struct remat_price *prices,
                                const struct remat_device_description *device,
                                struct remat_model *out);

/* The decision with these actions by item, where pins do not decide. A kernel-internal value
 * is recomputed along with those made of it. Its reasons are the model's. */
void remat_model_decide(struct remat_arena *arena, const struct remat_model *model,
                        const uint8_t *actions, struct remat_decision *out);

/* --- layers.c --- */

/* Layers are the periods of stacks (stacks.h), of all stacks together. Fills layer_count,
 * layer_of_node, item_layer and item_reach of a model that has everything else. */
void remat_model_layers(struct remat_arena *arena, struct remat_model *model);

/* --- divide.c --- */

/* Costs as the problem is built, by what they are of. */
struct remat_divided_costs {
    const double *kernel_ps;       /* by kernel: of every choice */
    const remat_kernel_id *arc_at; /* by arc: the kernel that it is a cost of; none: it runs after
                                      the loss */
};

/* Tells the kinds of the problem's work. The step is divided at the end of the first kernel of the
 * loss that has a fixed place: no program point is before it. */
void remat_model_divide(struct remat_arena *arena, struct remat_model *model,
                        const struct remat_divided_costs *costs);

/* --- program_point.c: the program points at which the bound's cuts are made --- */

/* The problem at a program point, the first run of a kernel: only values that are read after it are
 * wanted; its own operands are live in any case and count in other_bytes. */
struct remat_program_point {
    remat_kernel_id kernel;
    struct remat_border border;
    uint64_t other_bytes; /* beside persistent tensors and kept items, live during the run in every
                             plan */
};
struct remat_program_points REMAT_LIST(struct remat_program_point);

/* Kernels whose program points are worth a cut: all of the loss, and the built-in ones of the
 * backward pass up to the end of the last layer's. */
struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model,
                                               const struct remat_live *live);

#endif
