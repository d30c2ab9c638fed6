/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a graph, and what they hand on. */
#ifndef REMAT_LAYERS_H
#define REMAT_LAYERS_H

#include "closure.h"

/* How the forward pass and the loss read a value. */
enum remat_crossing {
    REMAT_CROSSING_NONE,    /* no layer takes part in it, or it is read where it is computed: in
                               one layer, or outside of all */
    REMAT_CROSSING_BETWEEN, /* from one layer into others */
    REMAT_CROSSING_BEYOND,  /* from a layer to outside of all, or the other way */
};

/* Layers are the periods of stacks (stacks.h), of all stacks together. Fills region_count,
 * region_of_node, item_region and item_crossing of a model that has everything else. */
void remat_model_layers(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_model *model);

#endif
