/* What the layers of a graph hand on: layers in order of the forward pass, and which values lie
 * between them. */
#ifndef REMAT_EXTRACT_LAYERS_H
#define REMAT_EXTRACT_LAYERS_H

#include "facts.h"

/* Numbers the layers, of all stacks together, in the order in which the forward pass reaches them:
 * *region_of_scope (by scope, in the arena), REMAT_NONE outside layers. */
remat_status remat_layers_number(struct remat_arena *arena, const struct remat_graph *graph,
                                 uint32_t **region_of_scope, uint32_t *region_count);

enum remat_crossing {
    REMAT_CROSSING_NONE,    /* no layer takes part in it, or it is read where it is computed: in
                               one layer, or outside of all */
    REMAT_CROSSING_BETWEEN, /* from one layer into others */
    REMAT_CROSSING_BEYOND,  /* from a layer to outside of all, or the other way */
};

/* *out: enum remat_crossing by root, in the arena; how the forward pass and the loss read it. */
remat_status remat_layers_crossings(struct remat_arena *arena, const struct remat_graph *graph,
                                    const struct remat_facts *facts,
                                    const uint32_t *region_of_scope, uint8_t **out);

#endif
